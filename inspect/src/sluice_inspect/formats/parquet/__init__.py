"""The Parquet format. `format.py` holds `FORMAT`."""
