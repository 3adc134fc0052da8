"""CORS: the origins whose pages may call the API and read its responses."""
