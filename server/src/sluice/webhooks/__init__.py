"""Webhooks: the endpoints of tenants to which events are sent, and the log of deliveries.

The worker sends them (`worker.jobs.webhooks`); how one is sent is in `sending`.
"""
