"""Measures what must not grow: with rows, with sizes, with neighbours, with time: `make bench-scale ARGS=lists` and the like."""
