"""The endpoints, one module per noun: from a request to a service's call to an envelope, and nothing more."""
