"""The pages of `docs/` that are generated from the code, one module each. `scripts/docs.py` writes them."""
