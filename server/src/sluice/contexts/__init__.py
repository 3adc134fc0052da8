"""File contexts: named sets of rules that uploads go into. How an upload is judged by them lives in `uploads`."""

from sluice.contexts.context import Context, RateLimit

__all__ = ["Context", "RateLimit"]
