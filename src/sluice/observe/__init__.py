"""How the service tells what it does: log, metrics. What is worth telling is decided where it happens."""
