"""What a client of the baseline must know."""

KEY = "an-afternoon-key"
CONTEXT = "bench"
