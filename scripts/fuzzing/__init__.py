"""Parts of `scripts/fuzz.py`: the corpus, one run, one entry's process. What is fuzzed is in `sluice.formats`."""
