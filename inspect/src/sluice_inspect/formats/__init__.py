"""One module per format, each with a `Format` (a family of formats: several). `registry.py` lists them."""
