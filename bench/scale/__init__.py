"""Measure what must stay flat as rows, sizes, tenants or time grow: `make bench-scale ARGS=lists` and others."""
