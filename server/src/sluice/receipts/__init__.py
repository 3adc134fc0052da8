"""Receipts: signed statements of what the service decided and did, which anybody can verify with its public keys."""
