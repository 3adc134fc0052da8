"""HEIF files: HEIC (`heic.py`) and AVIF (`avif.py`)."""
