"""Events: what happened to a tenant's things, written in the transaction that did it, numbered, and read in order.

The types are in `catalogue`, writing is in `outbox`, and reading in `service`.
"""
