"""Rate limits: counting and claiming in one call. Which limit applies to whom is decided in the upload pipeline."""

from sluice.limiter.protocol import Exhausted, ForgetsIdle, Limiter, LimiterUnavailable, Taken

__all__ = ["Exhausted", "ForgetsIdle", "Limiter", "LimiterUnavailable", "Taken"]
