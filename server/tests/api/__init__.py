"""The contract of the HTTP API, tested over real HTTP against a running server.

How the server is started is in `tests.service`.
"""
