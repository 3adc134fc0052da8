"""Rate limits: counting and claiming in one call. Which limit applies to whom is decided in the upload pipeline."""

from sluice.engines.limiter.protocol import Exhausted, Limiter, Taken

__all__ = ["Exhausted", "Limiter", "Taken"]
