"""The jobs of the worker: each claims what is due, acts, settles, and returns how much it did. All are idempotent."""
