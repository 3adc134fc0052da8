"""Log, metrics and traces of the service. What is recorded is decided where it happens."""
