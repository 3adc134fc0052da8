"""Tests of the engines, a folder per kind. The pipeline that uses them is tested elsewhere."""
