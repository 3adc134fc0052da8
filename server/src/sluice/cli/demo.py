"""`sluice demo`: a tenant with contexts, files and rejections, to look around in the console."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the HTTP client)

import io
import os
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from sluice.access import Scope
from sluice.cli.environment import on_database, operator_action, read_settings
from sluice_client.cli import output
from sluice_client.cli.form import FormFile
from sluice_client.cli.profiles import DEFAULT_URL, Target
from sluice_client.cli.service import Service, Url, opened

if TYPE_CHECKING:
    from sluice.db.database import Database

_DAYS: Final = 13
_EICAR: Final = "X5O!P%@AP[4\\PZX54(P^)7CC)7}$" + "EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
_CONTEXTS: Final[tuple[Mapping[str, Any], ...]] = (
    {
        "context_key": "claims",
        "display_name": "Claims",
        "description": "Documents that policyholders send with a claim.",
        "allowed_extensions": ["pdf", "png", "jpg", "txt"],
        "max_file_size_mb": 20,
        "storage_quota_mb": 1,
        "upload_rate_limit": {"max_uploads": 600, "window_seconds": 60},
    },
    {
        "context_key": "identity_documents",
        "display_name": "Identity documents",
        "description": "Passports and driving licences. Pictures only, not too small to be read.",
        "allowed_extensions": ["png", "jpg"],
        "max_file_size_mb": 5,
        "policies": {"image": {"mode": "enforce", "min_width": 200, "min_height": 120}},
    },
    {
        "context_key": "partner_exchange",
        "display_name": "Partner exchange: monthly statements, price lists and everything else that partners send",
        "max_file_size_mb": 1,
        "storage_quota_mb": 2,
        "check_modes": {"malware": "quarantine"},
        "policies": {"filename_pattern": {"mode": "report", "pattern": "[A-Za-z0-9 ._-]+"}},
    },
    {"context_key": "archive_2019", "display_name": "Archive 2019", "scan_for_viruses": True},
)
# Later changes of them.
_CHANGES: Final[tuple[tuple[str, Mapping[str, Any]], ...]] = (
    ("claims", {"allowed_extensions": ["pdf", "png", "jpg", "txt", "heic"], "max_file_size_mb": 25}),
    ("claims", {"policies": {"encrypted": {"mode": "report"}}, "retention_days": 3650}),
    ("partner_exchange", {"check_modes": {"malware": "quarantine", "blank": "report"}, "storage_quota_mb": 3}),
)
_NAMES: Final = (
    "Schadenmeldung Kfz 4711.pdf",
    "invoice-2026-0117.pdf",
    "Gutachten.pdf",
    "police report.pdf",
    "فاتورة أغسطس ٢٠٢٦.pdf",
    "Страховой полис.pdf",
    "תעודת ביטוח.pdf",
    (
        "Kostenvoranschlag Autohaus Müller & Söhne, Filiale Nord, zweite Fassung nach Rücksprache mit dem"
        " Sachverständigen vom 3. November (endgültig, unterschrieben, bitte nur diese verwenden).pdf"
    ),
)


def demo(*, url: Url = None) -> None:
    """Fill a new tenant with contexts, files, rejections and two weeks of reports, and print a link to its console.

    The service must run on this machine. The files of today are uploaded and checked like any others; the reports of
    the days before are copies of theirs.
    """
    tenant_id, key = on_database(_make_tenant)
    with opened(Target(url or os.environ.get("SLUICE_URL") or DEFAULT_URL, key)) as service:
        for context in _CONTEXTS:
            service.data("POST", "/api/v1/contexts", body=dict(context))
        sent = [_send(service, *one) for one in _uploads()]
        service.data("PATCH", "/api/v1/contexts/archive_2019", body={"status": "inactive"})
        for body in (
            {"name": "Intake form of the website", "scopes": ["upload"], "expires_in_days": 9},
            {"name": "Claims desk", "scopes": ["metadata", "download"]},
            {"name": "Nightly export", "scopes": ["metadata"], "mode": "test"},
        ):
            service.data("POST", "/api/v1/api-keys", body=body)
        token = {"context": "claims", "expires_in": 86_400, "max_files": 3, "end_user": "Policyholder 88-1204"}
        service.data("POST", "/api/v1/upload-tokens", body=token)
        webhook = {"url": "https://intake.meridian.example/sluice", "events": ["file.quarantined"]}
        service.data("POST", "/api/v1/webhook-endpoints", body=webhook)
        newest = service.data("GET", "/api/v1/files", query={"context": "claims"})
        for file in newest[:3]:
            service.data("DELETE", f"/api/v1/files/{file['file_id']}")
        for key, change in _CHANGES:
            service.data("PATCH", f"/api/v1/contexts/{key}", body=dict(change))
        held = f"/api/v1/files/{newest[4]['file_id']}/hold"
        service.data("PUT", held, body={"reason": "Lawsuit 12 O 88/26"})
        chosen = [file["file_id"] for file in newest[3:5]]
        service.data("POST", "/api/v1/files/bulk-delete", body={"file_ids": chosen})
        service.data("POST", "/api/v1/files/export", body={"filter": {"context": "claims"}, "format": "csv"})
    past, link = on_database(lambda database: _write_past(database, tenant_id))
    accepted = sum(sent)
    output.line(
        f"Made the tenant {tenant_id}: {accepted} of {len(sent)} uploads were accepted, and {past} reports are of the "
        "days before.",
        f"Look around (the link works once, for a minute; later: `sluice console login --tenant {tenant_id}`):",
        f"  {read_settings().resolved_public_url}/console/login/{link}",
    )


async def _make_tenant(database: "Database") -> tuple[str, str]:
    from sluice.api_keys.service import ApiKeys
    from sluice.tenants.service import Tenants

    tenant = await Tenants(database).create("Meridian Insurance (demo)", "unlimited")
    by = operator_action("api_key.created", tenant.tenant_id)
    issued = await ApiKeys(database).create(by, "Demo", [Scope.ADMIN.value])
    return tenant.tenant_id, issued.text


async def _write_past(database: "Database", tenant_id: str) -> tuple[int, str]:
    from sluice.decisions import DecisionFilter, MarkState
    from sluice.kit.clock import utc_now
    from sluice.sessions.service import Sessions
    from sluice.uploads.demo import write_past
    from sluice.uploads.reports import Reports

    past = await write_past(database, tenant_id, utc_now(), days=_DAYS, per_day=90)
    reports = Reports(database)
    groups = (await reports.groups(tenant_id, DecisionFilter())).groups
    states: tuple[MarkState, ...] = ("reviewed", "muted")
    for group, state in zip(groups[-2:], states, strict=False):
        seen = {group.key.group_id: group.newest_report_id}
        await reports.mark(operator_action(f"rejections.{state}", tenant_id), seen, state)
    by = operator_action("console.link_created", tenant_id)
    link = await Sessions(database).create_link(by, by.principal.actor_id, by.principal.actor_name, [Scope.ADMIN.value])
    return past, link.text


def _send(service: Service, context: str, name: str, content: bytes) -> bool:
    response = FormFile(name, io.BytesIO(content)).send(service.http, "/api/v1/files/upload", {"context": context})
    return response.status == HTTPStatus.CREATED


def _uploads() -> Iterator[tuple[str, str, bytes]]:
    """Yield context, name and content of each upload."""
    from sluice.uploads.samples import make_pdf, make_picture

    for number, name in enumerate(_NAMES * 2):
        yield "claims", name, make_pdf(f"Document {number}: {name.encode('ascii', 'replace').decode()}")
    for number in range(6):
        yield "claims", f"photo {number + 1} of the damage.png", make_picture(320 + 40 * number, 240, number)
        yield "identity_documents", f"passport-{number + 1:03}.png", make_picture(480, 300, number + 7)
        rows = "".join(f"{row},{row * number},open\n" for row in range(400))
        yield "partner_exchange", f"statement-2026-{number + 1:02}.csv", f"id,amount,state\n{rows}".encode()
    yield "claims", "empty page.pdf", make_pdf("")
    yield "claims", "scan 0001.pdf", make_pdf("")
    yield "claims", "Scan_2026-11-03 (2).pdf", make_pdf("A page that was cut off on its way.")[:180]
    yield "claims", "holiday photo.png", make_picture(320, 240, 3)[:900]
    yield "claims", "setup.exe", b"MZ" + bytes(600)
    yield "claims", "Rechnung\u202efdp.exe", b"MZ" + bytes(400)
    yield "claims", "invoice.pdf", b"<!doctype html><title>Invoice</title><p>Please open the link below.</p>"
    yield "identity_documents", "thumbnail.png", make_picture(64, 48, 5)
    yield "identity_documents", "front.png", make_picture(120, 80, 6)
    yield "identity_documents", "licence.pdf", make_pdf("A licence as a document")
    yield "partner_exchange", "price list.txt", _EICAR.encode()
    yield "claims", "note from the adjuster.txt", _EICAR.encode()
    yield "partner_exchange", "catalogue.bin", bytes(range(256)) * 4400
