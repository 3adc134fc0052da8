"""The bodies of requests and responses, one module per noun.

Checks of shape only; rules live in the services.
"""
