"""Rate limits: counting and claiming in one call. Which limit applies to whom is decided in the upload pipeline."""

from sluice.engines.limiter.protocol import Exhausted, ForgetsIdle, Limiter, LimiterAway, Taken

__all__ = ["Exhausted", "ForgetsIdle", "Limiter", "LimiterAway", "Taken"]
