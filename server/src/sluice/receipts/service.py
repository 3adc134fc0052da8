"""Operations on receipts: get that of a stored file, and the public keys that verify it."""

from typing import Any, Final

from sluice.db.database import Database
from sluice.decisions import repository as decision_rows
from sluice.errors import NotFound
from sluice.files import repository as file_rows
from sluice.kit.clock import Clock, iso_z, utc_now
from sluice.kit.text import is_plain
from sluice.receipts.signing import ReceiptKeys

PUBLIC_KEYS: Final = "/.well-known/sluice-receipts.json"


class Receipts:
    """The receipts of all tenants, one tenant at a time."""

    def __init__(self, database: Database, keys: ReceiptKeys, issuer: str, clock: Clock = utc_now) -> None:
        """`issuer` is the address of the service, below which its public keys are."""
        self._database = database
        self._keys = keys
        self._issuer = issuer
        self._clock = clock

    async def of_file(self, tenant_id: str, file_id: str) -> str:
        """Return the signed receipt of a stored file.

        Raise `NotFound`, also if the report of its upload is not kept any more.
        """
        async with self._database.reading(tenant_id) as connection:
            file = await file_rows.find(connection, tenant_id, file_id) if is_plain(file_id) else None
            report_id = None if file is None else await file_rows.find_report_id(connection, tenant_id, file_id)
            found = None if report_id is None else await decision_rows.find(connection, tenant_id, report_id)
        if file is None or found is None:
            raise NotFound
        stated = {
            "file_id": file_id,
            "report_id": found.report_id,
            "context_key": file.context_key,
            "sha256": file.sha256,
            "size_bytes": file.size_bytes,
            "content_type": file.content_type,
            "verdict": found.outcome,
            "reason": found.reason,
            "rules_version": found.rules_version,
            "engines": dict(found.engines),
            "decided_at": iso_z(found.created_at),
        }
        return self.sign("file", tenant_id, stated)

    def sign(self, kind: str, tenant_id: str, stated: dict[str, Any]) -> str:
        """Return a signed receipt of a kind that states something of a tenant's things."""
        signed_at = iso_z(self._clock())
        return self._keys.sign(
            {"kind": kind, "issuer": self._issuer, "tenant_id": tenant_id, "signed_at": signed_at, **stated}
        )

    def public_keys(self) -> dict[str, Any]:
        """Return the public keys, the newest first, as a JSON Web Key Set."""
        return self._keys.public_keys()
