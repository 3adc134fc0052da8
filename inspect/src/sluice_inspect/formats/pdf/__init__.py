"""PDF documents. The entry is `format.py`."""
