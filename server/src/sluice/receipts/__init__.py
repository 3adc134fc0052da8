"""Receipts: signed statements of what the service decided and did, which can be verified with its public keys."""
