"""What the bodies of requests and responses look like, one module per noun.

Checks of shape only; rules live in the services.
"""
