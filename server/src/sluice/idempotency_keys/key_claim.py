"""The values of idempotency keys."""

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta


def hash_of_key(via: str, actor_id: str, key: str) -> str:
    """Return the hash under which the key of a credential is stored."""
    return hashlib.sha256(json.dumps([via, actor_id, key]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class KeyClaim:
    """The claim of one upload on a key. It has the key as long as the row names its `report_id`.

    `key_hash` identifies the credential and the key, `fingerprint` the uploaded content.
    """

    tenant_id: str
    key_hash: str
    fingerprint: str
    report_id: str
    lease: timedelta


@dataclass(frozen=True, slots=True)
class EarlierUpload:
    """The upload that has the key, by its row.

    `may_run` says whether its lease still runs, `is_expired` whether its key was kept long enough, `file_state` is the
    state of the file that it reserved, None if there is none.
    """

    fingerprint: str
    report_id: str
    may_run: bool
    is_expired: bool
    file_state: str | None
