"""What one look through a file has shown so far, and the threat that ends it. What is a threat is decided by the rules in `rules/`."""

from dataclasses import dataclass, field


class ThreatFound(Exception):
    """A known threat. `name` is what it is called."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(slots=True)
class Findings:
    """Facts beside the verdict; sizes are in bytes, all levels of nesting together."""

    encrypted: bool = False
    """A part behind a password was met, which nobody here can open."""
    unopened: set[str] = field(default_factory=set)
    """Packings that neither we nor clamd can open."""
    foreign: set[str] = field(default_factory=set)
    """Packings that only clamd can open."""
    flags: set[str] = field(default_factory=set)
    """What is no threat and yet worth knowing."""
    hides: bool = False
    """A part was met that clamd does not see, and there was nowhere to lay it out."""
    largest: int = 0
    """The largest unpacked part; of one that only clamd unpacks, what it may come to."""
    laid: list[tuple[int, int, bool]] = field(default_factory=list)
    """What was laid out for clamd: where it starts, its length, and whether all that is packed in it was opened here as well."""
