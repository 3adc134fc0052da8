"""The background worker. It finds its work by queries, not in a queue, so any number of workers may run."""
