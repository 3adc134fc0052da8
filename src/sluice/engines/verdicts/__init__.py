"""Clean verdicts that need not be given twice: what may be kept, and the engines that keep it. Whom they spare work lives in `scanner`."""

from sluice.engines.verdicts.protocol import Cleared, VerdictCache, VerdictKey

__all__ = ["Cleared", "VerdictCache", "VerdictKey"]
