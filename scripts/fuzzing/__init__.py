"""Parts of `scripts/fuzz.py`: the corpus, one run, and the process of one entry."""
