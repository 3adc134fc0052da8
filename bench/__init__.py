"""Measure Sluice against the service that a competent developer writes in an afternoon, in one run: `make bench`."""
