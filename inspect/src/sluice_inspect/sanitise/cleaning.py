"""What is wanted of the sanitising of one file, what was taken out of it, and why it cannot be made clean."""

from collections.abc import Callable
from dataclasses import dataclass, field


class NotClean(Exception):
    """The file cannot be made clean; `why` is a word of `sandbox.sanitising.Unsanitised`."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(slots=True)
class Cleaning:
    """One file and all that is embedded in it.

    `removed` has words of `catalogue.REMOVED`, and is empty as long as the bytes need no change. `is_signed`: what was
    changed has a signature, which then no longer fits it.
    """

    metadata: bool
    active_content: bool
    removed: set[str] = field(default_factory=set)
    is_signed: bool = False
    depth: int = 0  # of documents within documents


# Returns the bytes without what is not wanted, and adds to `Cleaning.removed` what that was. If it adds nothing, what
# it returns is not used. It raises an `InspectionError` or `NotClean`; whatever else it raises is taken for damage.
Cleaner = Callable[[bytes, Cleaning], bytes]
