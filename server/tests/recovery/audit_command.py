"""Run `sluice audit` beside a running service."""

import json
from dataclasses import dataclass
from typing import Any

from tests.cli.forked import run_forked
from tests.service import Service, environment_of


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit: exit code, differences, sums and the text on stderr."""

    code: int
    findings: list[dict[str, Any]]
    sums: dict[str, Any]
    complaint: str

    def of(self, tenant_id: str) -> set[tuple[str, str]]:
        """Return kind and subject of the differences of one tenant."""
        own = [one for one in self.findings if one["tenant_id"] == tenant_id or tenant_id in one["subject"]]
        return {(one["kind"], one["subject"]) for one in own}


def run_audit(service: Service, *options: str) -> AuditResult:
    """Run the command for this service and wait for its end."""
    folder = service.deployment.folder
    out, err = folder / "audit.out", folder / "audit.err"
    environment = environment_of(service.deployment, service.port)
    code = run_forked(["audit", "--json", *options], environment, folder, out, err)
    lines = [json.loads(line) for line in out.read_text().splitlines()] or [{}]
    return AuditResult(code, lines[:-1], lines[-1], err.read_text())
