"""Tests of who may sign tokens; `tokens` forges them, `issuer` publishes keys over real sockets."""
