"""The contract of the HTTP API, clause by clause, through real HTTP against a running server. How the server is started lives in `tests.gate`."""
