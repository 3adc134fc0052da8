"""What a client of the baseline must know, and what the baseline must know of the stub of S3."""

KEY = "an-afternoon-key"
CONTEXT = "bench"
BUCKET, ACCESS_KEY, SECRET_KEY = "bench", "a" * 20, "s" * 40
