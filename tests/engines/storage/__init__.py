"""Tests of the object stores: the shared contract first, then what each store adds to it. Buckets of tenants are tested elsewhere."""
