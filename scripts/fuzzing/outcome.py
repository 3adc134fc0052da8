"""The outcome of fuzzing one entry, and its file between the processes."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Outcome:
    """The number of inputs that were run, and the findings, one line each."""

    runs: int = 0
    found: list[str] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        """Add the outcome of another process, without duplicate findings."""
        self.runs += other.runs
        self.found += [line for line in other.found if line not in self.found]

    def with_found(self, line: str) -> "Outcome":
        """Return this outcome with another finding."""
        return Outcome(self.runs, [*self.found, line])

    def write(self, path: Path) -> None:
        """Write the outcome atomically, since the process may die at any time."""
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(self)), "utf-8")
        new.replace(path)

    @classmethod
    def read(cls, path: Path) -> "Outcome":
        """Return the outcome that a process wrote, or an empty one."""
        return cls(**json.loads(path.read_text("utf-8"))) if path.exists() else cls()
