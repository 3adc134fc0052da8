"""TIFF and BigTIFF. The entry is `format.py`."""
