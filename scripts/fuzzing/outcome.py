"""What became of one entry, as its process tells. Runs nothing."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Outcome:
    """How many inputs were run, and in one line each what was found."""

    runs: int = 0
    found: list[str] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        """Count another process's outcome in, the same finding once."""
        self.runs += other.runs
        self.found += [line for line in other.found if line not in self.found]

    def with_found(self, line: str) -> "Outcome":
        """Answer this outcome with one more finding."""
        return Outcome(self.runs, [*self.found, line])

    def write(self, path: Path) -> None:
        """Leave it for `read`; whole, since the process may die any time."""
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(self)), "utf-8")
        new.replace(path)

    @classmethod
    def read(cls, path: Path) -> "Outcome":
        """Answer what a process left, nothing where it left nothing."""
        return cls(**json.loads(path.read_text("utf-8"))) if path.exists() else cls()
