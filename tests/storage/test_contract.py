"""What every object store does alike. A new store is done when it is listed in the fixture `store` and passes this file."""

import os
import secrets
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.engines.storage import Listed, ListsObjects, ObjectStore, StoreFault
from sluice.kit.health import EngineState
from tests.engines.storage.conftest import Seal, content

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


async def test_an_object_is_read_back_as_it_was_put(store: ObjectStore, seal: Seal) -> None:
    body = os.urandom(100_000)
    await store.put("a/b", seal(body), content_type="image/png")
    assert await content(store, "a/b") == body


async def test_the_offset_of_the_sealed_descriptor_is_left_alone(store: ObjectStore, seal: Seal) -> None:
    sealed = seal(b"0123456789")
    os.lseek(sealed.fd, 7, os.SEEK_SET)
    await store.put("a", sealed, content_type="text/plain")
    assert await content(store, "a") == b"0123456789"
    assert os.lseek(sealed.fd, 0, os.SEEK_CUR) == 7


@pytest.mark.parametrize("key", KEYS)
async def test_a_key_of_any_letters_names_its_own_object(store: ObjectStore, seal: Seal, key: str) -> None:
    await store.put(key, seal(key.encode()), content_type="text/plain")
    assert await content(store, key) == key.encode()
    assert await store.size(key) == len(key.encode())
    await store.delete(key)
    assert await store.size(key) is None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters=[chr(n) for n in range(32)] + ["\x7f", "/"]),
        min_size=1,
        max_size=60,
    )
)
async def test_any_allowed_name_is_stored_and_found(store: ObjectStore, seal: Seal, name: str) -> None:
    key = f"{secrets.token_hex(8)}/x{name}"
    await store.put(key, seal(b"1"), content_type="text/plain")
    assert await content(store, key) == b"1"


async def test_keys_that_differ_in_normal_form_only_are_two_keys(store: ObjectStore, seal: Seal) -> None:
    await store.put("e\u0301", seal(b"two characters"), content_type="text/plain")
    assert await store.size("\u00e9") is None


@pytest.mark.parametrize(
    "key",
    ["", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/./b", "a\x00b", "a\nb", "a\x7fb", "a\ud800", "k" * 1025, "ü" * 513],
)
async def test_what_is_no_key_is_refused_everywhere(store: ObjectStore, seal: Seal, key: str) -> None:
    for call in (
        store.put(key, seal(b"x"), content_type="text/plain"),
        store.size(key),
        store.delete(key),
        content(store, key),
    ):
        with pytest.raises(StoreFault, match="A key"):
            await call


async def test_an_empty_object_is_an_object(store: ObjectStore, seal: Seal) -> None:
    await store.put("empty", seal(b""), content_type="text/plain")
    assert await store.size("empty") == 0
    assert await content(store, "empty") == b""


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (0, 4, b"0123"),
        (3, None, b"3456789"),
        (3, 4, b"3456"),
        (8, 100, b"89"),
        (9, 1, b"9"),
        (10, None, b""),
        (99, 5, b""),
        (2, 0, b""),
    ],
)
async def test_a_range_is_what_there_is_of_it(
    store: ObjectStore, seal: Seal, start: int, length: int | None, expected: bytes
) -> None:
    await store.put("digits", seal(b"0123456789"), content_type="text/plain")
    assert await content(store, "digits", start=start, length=length) == expected


async def test_a_range_may_lie_across_chunks(store: ObjectStore, seal: Seal) -> None:
    body = os.urandom(9 * PIECE)
    await store.put("large", seal(body), content_type="text/plain")
    assert await content(store, "large", start=PIECE - 3, length=6 * PIECE) == body[PIECE - 3 : 7 * PIECE - 3]


async def test_chunks_are_at_most_one_mebibyte(store: ObjectStore, seal: Seal) -> None:
    await store.put("chunks", seal(bytes(5 * PIECE + 1)), content_type="text/plain")
    sizes = [len(chunk) async for chunk in store.read("chunks")]
    assert max(sizes) <= PIECE
    assert sum(sizes) == 5 * PIECE + 1


async def test_reading_may_end_early(store: ObjectStore, seal: Seal) -> None:
    await store.put("early", seal(bytes(3 * PIECE)), content_type="text/plain")
    chunks = store.read("early")
    assert await anext(chunks)
    await chunks.aclose()  # type: ignore[attr-defined]  # an async generator, which the protocol need not say
    assert await store.size("early") == 3 * PIECE


async def test_a_missing_object_has_no_size(store: ObjectStore) -> None:
    assert await store.size(new_key()) is None


async def test_reading_a_missing_object_raises_key_error(store: ObjectStore) -> None:
    with pytest.raises(KeyError):
        await content(store, new_key())


async def test_part_of_a_key_is_no_object(store: ObjectStore, seal: Seal) -> None:
    await store.put("folder/object", seal(b"x"), content_type="text/plain")
    assert await store.size("folder") is None
    assert await store.size("folder/object/below") is None
    await store.delete("folder")
    assert await store.size("folder/object") == 1


async def test_deleting_a_missing_object_changes_nothing(store: ObjectStore) -> None:
    key = new_key()
    await store.delete(key)
    await store.delete(key)
    assert await store.size(key) is None


@pytest.mark.parametrize("size", [10, 9 * PIECE])
async def test_a_taken_key_keeps_its_object(store: ObjectStore, seal: Seal, size: int) -> None:
    first = os.urandom(size)
    await store.put("taken", seal(first), content_type="text/plain")
    with pytest.raises(StoreFault, match="already"):
        await store.put("taken", seal(os.urandom(size)), content_type="text/plain")
    assert await content(store, "taken") == first


async def test_a_taken_key_refuses_equal_bytes_too(store: ObjectStore, seal: Seal) -> None:
    await store.put("taken", seal(b"same"), content_type="text/plain")
    with pytest.raises(StoreFault, match="already"):
        await store.put("taken", seal(b"same"), content_type="text/plain")


@pytest.mark.parametrize("size", [100, 9 * PIECE])
async def test_bytes_that_end_early_leave_no_object(store: ObjectStore, seal: Seal, size: int) -> None:
    sealed = seal(os.urandom(size))
    os.ftruncate(sealed.fd, size - 1)
    with pytest.raises(StoreFault, match="received bytes"):
        await store.put("short", sealed, content_type="text/plain")
    assert await store.size("short") is None


async def test_a_closed_descriptor_is_a_fault(store: ObjectStore, seal: Seal) -> None:
    sealed = seal(b"x")
    with pytest.raises(StoreFault, match="received bytes"):
        await store.put("closed", type(sealed)(999_999, 1, sealed.sha256), content_type="text/plain")


async def test_the_probe_leaves_nothing_behind(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda _size=None: "probed")
    await store.probe()
    assert await store.size(".sluice-probe/probed") is None


async def test_a_store_in_use_is_up(store: ObjectStore) -> None:
    health = await store.health()
    assert (health.kind, health.state) == ("storage", EngineState.UP)


async def test_closing_twice_is_closing_once_and_afterwards_every_call_is_a_fault(store: ObjectStore, seal: Seal) -> None:
    await store.aclose()
    await store.aclose()
    for call in (
        store.put("a", seal(b"x"), content_type="text/plain"),
        store.size("a"),
        store.delete("a"),
        store.probe(),
        content(store, "a"),
    ):
        with pytest.raises(StoreFault, match="closed"):
            await call
    assert (await store.health()).state is EngineState.DOWN


async def _keys(store: ObjectStore, prefix: str = "", after: str = "") -> list[str]:
    assert isinstance(store, ListsObjects)
    return [found.key async for batch in store.listed(prefix, after=after) for found in batch]


async def test_objects_are_listed_in_the_order_of_their_keys_from_any_key_on(store: ObjectStore, seal: Seal) -> None:
    keys = ["a-b", "a.b/c", "a/b", "a/b-c", "a/c/d", "a0", "b/é", "b/ü/x", "c"]
    for key in keys:
        await store.put(key, seal(key.encode()), content_type="text/plain")
    in_order = sorted(keys, key=str.encode)
    assert await _keys(store) == in_order
    for number, key in enumerate(in_order):
        assert await _keys(store, after=key) == in_order[number + 1 :]
    assert await _keys(store, after="a/b0") == [key for key in in_order if key.encode() > b"a/b0"]


async def test_a_folder_is_listed_alone_and_with_sizes(store: ObjectStore, seal: Seal) -> None:
    for key in ("a/b/c", "a/b/d", "a/bc", "a/b.d"):
        await store.put(key, seal(b"x" * len(key)), content_type="text/plain")
    assert isinstance(store, ListsObjects)
    found = [one async for batch in store.listed("a/b") for one in batch]
    assert found == [Listed("a/b/c", 5), Listed("a/b/d", 5)]
    assert await _keys(store, "a/b", "a/b/c") == ["a/b/d"]
    assert await _keys(store, "nowhere") == []


async def test_what_was_put_is_known_as_ours(store: ObjectStore, seal: Seal) -> None:
    await store.put("a/b", seal(b"x"), content_type="text/plain")
    assert isinstance(store, ListsObjects)
    assert (await store.is_ours("a/b"), await store.is_ours("a/c")) == (True, False)
