"""Sluice, a gate for files: every upload is inspected under the rules of its context before anything is stored."""

__version__ = "0.1.0"
