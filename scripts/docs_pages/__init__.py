"""The pages of `docs/` that are made from the code, one module each. Writing and comparing them is done in `scripts/docs.py`."""
