"""Trials that take long, or need what CI has not: each is run by a target of make, and named by its file alone. Their short forms are in the suite."""
