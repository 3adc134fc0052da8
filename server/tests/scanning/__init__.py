"""Tests of the scanner through the service: accepted and rejected uploads, rescans of stored files."""
