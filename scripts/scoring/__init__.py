"""Parts of `scripts/verdicts.py`: what is read, what is damaged, what is counted, what is printed. The checks themselves are in `sluice.formats`."""
