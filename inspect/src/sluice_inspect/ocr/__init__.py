"""OCR: the text of pictures and of scanned pages, read by Tesseract where it is installed."""
