"""Resumable uploads: one file whose bytes come in several requests, and that is judged as any other at the end."""
