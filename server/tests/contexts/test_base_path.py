"""No object key leaves the base path of its bucket, whatever base path, template and file name were sent."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sluice.api.schemas.buckets import AddBucket
from sluice.buckets import Bucket
from sluice.contexts.templates import BadTemplate, render, validate
from sluice.errors import Invalid
from sluice.storage import SERVICE_FOLDERS, S3Settings
from sluice.storage.common import validate_key
from sluice.uploads.names import read_name

AT = datetime(2026, 3, 4, tzinfo=UTC)

_good = st.sampled_from(
    ["..", ".", "/", "a", "b/", " c", "x.y", "{file_id}", "{extension}", "{sha256}/", "_incoming/", "_exports"]
)
_bad = st.sampled_from(["\\", "//", "%2e", "%2f", "\0", "\u00e9", "\uff0e\uff0e", "../"])
_texts = st.one_of(
    st.lists(_good, max_size=8).map("".join), st.lists(_good | _bad, max_size=8).map("".join), st.text(max_size=20)
)


def _bucket(base_path: str) -> Bucket:
    keys = {"access_key_id": "A" * 16, "secret_access_key": "s"}
    body = {"name": "n", "default_bucket": "bucket", "base_path": base_path} | keys
    bare = AddBucket.model_validate(body).new_bucket().base_path
    ids: dict[str, Any] = {
        "config_id": "bkt_1",
        "tenant_id": "ten_1",
        "name": "n",
        "created_at": AT,
        "updated_at": None,
    }
    place: dict[str, Any] = {"settings": S3Settings("A" * 16, "r"), "default_bucket": "bucket", "base_path": bare}
    return Bucket(**ids, **place, secret_sealed="", is_active=True)


@settings(suppress_health_check=[HealthCheck.too_slow])  # how fast texts are made depends on the machine
@given(base_path=_texts, template=_texts, name=_texts)
@pytest.mark.asvs("5.3.2")
def test_no_object_key_leaves_the_base_path(base_path: str, template: str, name: str) -> None:
    try:
        bucket, extension = _bucket(base_path), read_name(name).extension
        validate(template)
    except (ValidationError, BadTemplate, Invalid):
        return
    ids = {"tenant_id": "ten_1", "context_key": "claims", "file_id": "file_1"}
    rendered = render(template, **ids, extension=extension, sha256="ab" * 32, at=AT)
    key = validate_key(bucket.key_for(rendered))
    parts = key.split("/")
    assert key == key.strip("/ ")
    assert bucket.base_path == "" or key.startswith(f"{bucket.base_path}/")
    assert not {"", ".", ".."} & set(parts)
    assert parts[0] not in SERVICE_FOLDERS
    assert "file_1" in key.removeprefix(bucket.base_path)
    assert key.isascii()
    assert not set("\\%") & set(key)
