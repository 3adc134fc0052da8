"""Running `sluice audit` beside a running service."""

import json
from dataclasses import dataclass
from typing import Any

from tests.cli.forked import run_forked
from tests.gate import Service, environment_of


@dataclass(frozen=True)
class Audited:
    """What an audit said: its exit code, the differences, and the sums."""

    code: int
    findings: list[dict[str, Any]]
    sums: dict[str, Any]
    complaint: str

    def of(self, tenant_id: str) -> set[tuple[str, str]]:
        """Answer kind and subject of the differences of one tenant."""
        return {
            (one["kind"], one["subject"]) for one in self.findings if one["tenant_id"] == tenant_id or tenant_id in one["subject"]
        }


def audited(service: Service, *options: str) -> Audited:
    """Run the command to its end on the service's place."""
    folder = service.place.folder
    out, err = folder / "audit.out", folder / "audit.err"
    environment = environment_of(service.place, service.port)
    code = run_forked(["audit", "--json", *options], environment, folder, out, err)
    lines = [json.loads(line) for line in out.read_text().splitlines()] or [{}]
    return Audited(code, lines[:-1], lines[-1], err.read_text())
