"""API keys: what may be done with them, their rows, and the text that a caller presents."""
