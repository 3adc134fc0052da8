"""Signed requests to URLs that tenants name: webhooks and the questions to external checks."""
