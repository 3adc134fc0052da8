"""Fonts: TrueType and OpenType (`sfnt.py`), and both packed for the web as WOFF and WOFF2 (`webfont.py`)."""
