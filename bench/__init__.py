"""Measures Sluice against what a competent developer writes in an afternoon, in one run, with all checks on: `make bench`."""
