"""The contract of object stores. A new store is added to the fixture `store` and must pass this file."""

import os
import secrets
import uuid
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.kit.health import EngineState
from sluice.storage import DeletesMany, ListedObject, ListsObjects, ObjectChanged, ObjectStore
from tests.storage.conftest import Seal, all_fail, every_call, read_object

KEYS = [
    "a",
    "tenant/context/2026/01/file.bin",
    "with space/ leading and trailing ",
    "plus+and&equals=;at@comma,colon:dollar$",
    "percent%20encoded/%2F/%",
    "question?hash#star*tilde~quote'\"<>|^`{}[]\\",
    "Übersicht/日本語/😀.txt",
    "combining/e\u0301",
    "e\u0301 is not é",
    ".hidden/..x/x../...",
    ".tmp/x",
    "long-names/x",
    "k" * 1000,
    "/".join(["part"] * 200),
    "ü" * 500,
]
PIECE = 1024 * 1024


def new_key() -> str:
    return f"t/{uuid.uuid4()}"


@pytest.mark.parametrize("size", [0, 100_000])
async def test_object_is_read_back_unchanged(store: ObjectStore, seal: Seal, size: int) -> None:
    body = os.urandom(size)
    await store.put("a/b", seal(body), content_type="image/png")
    assert await store.size("a/b") == size
    assert await read_object(store, "a/b") == body


async def test_put_keeps_offset_of_sealed_descriptor(store: ObjectStore, seal: Seal) -> None:
    sealed = seal(b"0123456789")
    os.lseek(sealed.fd, 7, os.SEEK_SET)
    await store.put("a", sealed, content_type="text/plain")
    assert await read_object(store, "a") == b"0123456789"
    assert os.lseek(sealed.fd, 0, os.SEEK_CUR) == 7


@pytest.mark.parametrize("key", KEYS)
async def test_key_with_special_characters_names_its_own_object(store: ObjectStore, seal: Seal, key: str) -> None:
    await store.put(key, seal(key.encode()), content_type="text/plain")
    assert await read_object(store, key) == key.encode()
    assert await store.size(key) == len(key.encode())
    await store.delete(key)
    assert await store.size(key) is None


LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters=[*map(chr, range(32)), "\x7f", "/"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(LETTERS, min_size=1, max_size=60))
async def test_any_valid_key_is_stored_and_found(store: ObjectStore, seal: Seal, name: str) -> None:
    key = f"{secrets.token_hex(8)}/x{name}"
    await store.put(key, seal(b"1"), content_type="text/plain")
    assert await read_object(store, key) == b"1"


@pytest.mark.parametrize(
    "key",
    [
        *("", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/./b"),
        *("a\x00b", "a\nb", "a\x7fb", "a\ud800", "k" * 1025, "ü" * 513),
    ],
)
async def test_invalid_key_is_refused_by_every_method(store: ObjectStore, seal: Seal, key: str) -> None:
    await all_fail(every_call(store, seal, key), "A key")


async def test_read_returns_the_available_range_in_chunks_of_a_mebibyte(store: ObjectStore, seal: Seal) -> None:
    await store.put("digits", seal(b"0123456789"), content_type="text/plain")
    ranges = [(0, 4), (3, None), (3, 4), (8, 100), (9, 1), (10, None), (99, 5), (2, 0)]
    found = [await read_object(store, "digits", start=start, length=length) for start, length in ranges]
    assert found == [b"0123", b"3456789", b"3456", b"89", b"9", b"", b"", b""]
    body = os.urandom(9 * PIECE + 1)
    await store.put("large", seal(body), content_type="text/plain")
    assert await read_object(store, "large", start=PIECE - 3, length=6 * PIECE) == body[PIECE - 3 : 7 * PIECE - 3]
    sizes = [len(chunk) async for chunk in store.read("large")]
    assert max(sizes) <= PIECE
    assert sum(sizes) == len(body)
    chunks = store.read("large")
    assert await anext(chunks)
    await chunks.aclose()  # type: ignore[attr-defined]  # an async generator, which the protocol does not promise
    assert await store.size("large") == len(body)


async def test_object_of_another_size_than_expected_is_not_read(store: ObjectStore, seal: Seal) -> None:
    for body in (b"", b"0123456789"):
        key = new_key()
        await store.put(key, seal(body), content_type="text/plain")
        assert await anext(store.read(key, expected_size=len(body)), b"") == body
        for start, expected_size in ((0, 0 if body else 1), (0, 9), (2, 11), (30, 40)):
            with pytest.raises(ObjectChanged):
                await anext(store.read(key, start=start, length=5, expected_size=expected_size))


async def test_part_or_other_unicode_form_of_a_key_is_not_an_object(store: ObjectStore, seal: Seal) -> None:
    for key in ("folder/object", "e\u0301"):
        await store.put(key, seal(b"x"), content_type="text/plain")
    assert [await store.size(key) for key in ("folder", "folder/object/below", "\u00e9")] == [None] * 3
    await store.delete("folder")
    assert await store.size("folder/object") == 1


async def test_missing_object_has_no_size_is_not_read_and_can_be_deleted(store: ObjectStore) -> None:
    key = new_key()
    assert await store.size(key) is None
    with pytest.raises(KeyError):
        await read_object(store, key)
    for _ in range(2):
        await store.delete(key)
    assert await store.size(key) is None


@pytest.mark.parametrize("size", [10, 9 * PIECE])
async def test_put_never_replaces_an_object_not_even_by_equal_bytes(store: ObjectStore, seal: Seal, size: int) -> None:
    first = os.urandom(size)
    await store.put("taken", seal(first), content_type="text/plain")
    for body in (first, os.urandom(size)):
        await all_fail([store.put("taken", seal(body), content_type="text/plain")], "already")
    assert await read_object(store, "taken") == first


@pytest.mark.parametrize("size", [100, 9 * PIECE])
async def test_truncated_or_closed_file_leaves_no_object(store: ObjectStore, seal: Seal, size: int) -> None:
    sealed = seal(os.urandom(size))
    os.ftruncate(sealed.fd, size - 1)
    for short in (sealed, type(sealed)(999_999, 1, sealed.sha256)):
        await all_fail([store.put("short", short, content_type="text/plain")], "received bytes")
        assert await store.size("short") is None


async def test_working_store_is_up_and_its_probe_goes(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda _size=None: "probed")
    await store.probe()
    assert await store.size(".sluice-probe/probed") is None
    health = await store.health()
    assert (health.kind, health.state) == ("storage", EngineState.UP)


async def test_closed_store_raises_error_on_every_call(store: ObjectStore, seal: Seal) -> None:
    assert isinstance(store, DeletesMany)
    for _ in range(2):
        await store.aclose()
    await all_fail([*every_call(store, seal, "a"), store.probe(), store.delete_many(["a"])], "closed")
    assert (await store.health()).state is EngineState.DOWN


async def _keys(store: ObjectStore, prefix: str = "", after: str = "") -> list[str]:
    assert isinstance(store, ListsObjects)
    return [found.key async for batch in store.list_objects(prefix, after=after) for found in batch]


async def test_objects_are_listed_in_key_order_from_any_key(store: ObjectStore, seal: Seal) -> None:
    keys = ["a-b", "a.b/c", "a/b", "a/b-c", "a/c/d", "a0", "b/é", "b/ü/x", "c"]
    for key in keys:
        await store.put(key, seal(key.encode()), content_type="text/plain")
    in_order = sorted(keys, key=str.encode)
    assert await _keys(store) == in_order
    for number, key in enumerate(in_order):
        assert await _keys(store, after=key) == in_order[number + 1 :]
    assert await _keys(store, after="a/b0") == [key for key in in_order if key.encode() > b"a/b0"]


async def test_listing_a_folder_returns_its_objects_with_sizes(store: ObjectStore, seal: Seal) -> None:
    for key in ("a/b/c", "a/b/d", "a/bc", "a/b.d"):
        await store.put(key, seal(b"x" * len(key)), content_type="text/plain")
    assert isinstance(store, ListsObjects)
    found = [replace(one, version="") async for batch in store.list_objects("a/b") for one in batch]
    assert found == [ListedObject("a/b/c", 5), ListedObject("a/b/d", 5)]
    assert await _keys(store, "a/b", "a/b/c") == ["a/b/d"]
    assert await _keys(store, "nowhere") == []
    assert (await store.is_ours("a/b/c"), await store.is_ours("a/c")) == (True, False)


async def test_delete_many_deletes_the_given_valid_keys_and_reports_the_others(store: ObjectStore, seal: Seal) -> None:
    assert isinstance(store, DeletesMany)
    many = [f"many/{number}" for number in range(2005)]  # more than one request takes
    for key in (*KEYS, "kept", *(many[number] for number in (0, 999, 1000, 2004))):
        await store.put(key, seal(b"x"), content_type="text/plain")
    assert await store.delete_many([*KEYS, "missing", "kept/below", "a"]) == {}
    assert [key for key in KEYS if await store.size(key) is not None] == []
    assert await store.size("kept") == 1
    assert await store.delete_many([]) == await store.delete_many(many) == {}
    assert await _keys(store) == ["kept"]
    failed = await store.delete_many(["../a", "kept", ""])
    assert failed == {"../a": "A key is relative and has no empty, `.` or `..` part.", "": "A key has 1 to 1024 bytes."}
    assert await store.size("kept") is None
