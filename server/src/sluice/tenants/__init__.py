"""Tenants: who the service works for. Their keys, contexts and buckets are nouns of their own."""

from sluice.tenants.tenant import Plan, Tenant

__all__ = ["Plan", "Tenant"]
