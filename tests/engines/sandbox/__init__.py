"""Tests of the sandbox: hostile actions run for real inside a locked child. The parsers that it holds are tested with the formats."""
