"""Parts of `scripts/verdicts.py`: reading labels, damaging files, scoring, and printing tables."""
