"""Tests of token verification. `tokens` makes valid and forged tokens, `key_server` publishes keys."""
