"""Credentials and names shared by the baseline, its clients and the S3 stub."""

KEY = "an-afternoon-key"
CONTEXT = "bench"
BUCKET, ACCESS_KEY, SECRET_KEY = "bench", "a" * 20, "s" * 40
