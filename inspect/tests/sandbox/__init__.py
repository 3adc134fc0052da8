"""Tests of the sandbox: hostile actions run in a real locked child. The parsers are tested with the formats."""
