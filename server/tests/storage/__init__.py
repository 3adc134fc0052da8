"""Tests of the object stores: the shared contract, and what each store adds to it."""
