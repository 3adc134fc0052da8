"""SLUICE_STORAGE_URL: the platform's store as one URL, of a folder or a bucket."""

from contextlib import aclosing
from pathlib import Path

import pytest
from pydantic import ValidationError

from sluice.settings import Settings
from sluice.storage.local.store import LocalStore
from sluice.storage.s3.store import S3Store
from sluice.wiring.storage import make_stores
from tests.rows import each_row


@each_row("scheme, kind", [("file", LocalStore), ("s3", S3Store)])
async def test_scheme_of_the_url_selects_the_store(scheme: str, kind: type, tmp_path: Path) -> None:
    url = {"file": f"file://{tmp_path}/a%20folder", "s3": "s3://archive"}[scheme]
    key = {"storage_access_key_id": "id", "storage_secret_access_key": "secret"} if scheme == "s3" else {}
    async with aclosing(make_stores(Settings(data_dir=tmp_path, storage_url=url, **key))) as stores:  # type: ignore[arg-type]  # as read from the environment
        assert isinstance(stores.of(None), kind)
    assert (tmp_path / "a folder" / "objects").is_dir() is (scheme == "file")


@each_row("url", ["archive", "file://relative", "s3://", "s3://Archive", "s3://a/b", "https://archive"])
def test_invalid_storage_url_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="storage_url"):
        Settings(storage_url=url)


@each_row("other", [{"storage_dir": "folder"}, {"storage_bucket": "archive"}])
def test_storage_url_with_another_storage_setting_is_refused(other: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="expected without SLUICE_STORAGE_DIR"):
        Settings(storage_url="s3://archive", **other)  # type: ignore[arg-type]  # as read from the environment
