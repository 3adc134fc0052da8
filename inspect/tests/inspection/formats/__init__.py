"""Tests of each format, and the samples they are made of."""
