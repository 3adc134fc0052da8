"""Sealed secrets: they open only unchanged, with the right key and where they are bound."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.kit.cipher import CannotOpen, Keyring, UnknownKey, decrypt, encrypt
from tests.rows import each_row

SHARED = Path(__file__).parents[3].parent / "shared"
VECTORS = next((SHARED / "attacks" / "aead").glob("**/*aes_gcm_test.json"), None)
KEY, OTHER_KEY = bytes(range(32)), bytes(range(1, 33))
KEYRING = Keyring({"k1": KEY}, "k1")
BINDING = ("ten_1", "bkt_1", "secret_access_key")

bindings = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4).map(tuple)


def decoded(blob: str) -> bytes:
    return base64.urlsafe_b64decode(blob + "=" * (-len(blob) % 4))


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def assert_closed(blob: str, keyring: Keyring = KEYRING, bound_to: tuple[str, ...] = BINDING, why: str = "") -> None:
    """Assert that the secret does not open."""
    with pytest.raises(CannotOpen, match=why or None):
        keyring.open(blob, bound_to=bound_to)


@given(plaintext=st.text(), binding=bindings)
def test_a_sealed_secret_opens_where_it_is_bound(plaintext: str, binding: tuple[str, ...]) -> None:
    assert KEYRING.open(KEYRING.seal(plaintext, bound_to=binding), bound_to=binding) == plaintext


@given(binding=bindings, other=bindings)
@pytest.mark.asvs("11.3.3")
def test_a_sealed_secret_does_not_open_elsewhere(binding: tuple[str, ...], other: tuple[str, ...]) -> None:
    if other != binding:
        assert_closed(KEYRING.seal("s", bound_to=binding), bound_to=other)


ALIKE = [("ab", "c"), ("a", "b", "c"), ("abc",), ("c", "ab"), ("a", "bc", "d"), ("a",)]


@each_row("other", [*ALIKE, ("a\x00bc",), ("a\x00\x00\x00\x02bc",)], ids=repr)
def test_bindings_with_the_same_joined_text_are_different(other: tuple[str, ...]) -> None:
    assert_closed(KEYRING.seal("s", bound_to=("a", "bc")), bound_to=other)


@given(data=st.data(), plaintext=st.text(max_size=20))
@pytest.mark.asvs("11.3.3")
def test_a_sealed_secret_with_any_changed_bit_is_refused(data: st.DataObject, plaintext: str) -> None:
    blob = KEYRING.seal(plaintext, bound_to=BINDING)
    raw = bytearray(decoded(blob))
    bit = data.draw(st.integers(0, len(raw) * 8 - 1))
    raw[bit // 8] ^= 1 << bit % 8
    assert_closed(encoded(bytes(raw)))


@given(data=st.data(), text=st.text())
def test_a_truncated_sealed_secret_and_arbitrary_text_do_not_open(data: st.DataObject, text: str) -> None:
    blob = KEYRING.seal("secret", bound_to=BINDING)
    assert_closed(blob[: data.draw(st.integers(0, len(blob) - 1))])
    assert_closed(text)


@each_row("change", ["{}=", "{}==", "{}\n", " {}", "{}A"])
def test_a_sealed_secret_has_exactly_one_accepted_form(change: str) -> None:
    assert_closed(change.format(KEYRING.seal("secret", bound_to=BINDING)))


@each_row("plaintext", ["", "s", "se"])
def test_unused_bits_set_in_the_last_character_are_refused(plaintext: str) -> None:
    blob = KEYRING.seal(plaintext, bound_to=BINDING)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    others = [blob[:-1] + letter for letter in letters]
    alike = {other for other in others if base64.urlsafe_b64decode(f"{other}==") == decoded(blob)}
    assert blob in alike
    for other in alike - {blob}:
        assert_closed(other, why="base64url")


@pytest.mark.asvs("11.3.2", "11.5.1")
def test_sealing_the_same_secret_twice_gives_different_text() -> None:
    assert len({KEYRING.seal("secret", bound_to=BINDING) for _ in range(500)}) == 500


def test_the_primary_key_seals_and_an_older_key_still_opens() -> None:
    old = KEYRING.seal("secret", bound_to=BINDING)
    keyring = Keyring({"k1": KEY, "k2": OTHER_KEY}, "k2")
    assert keyring.open(old, bound_to=BINDING) == "secret"
    assert not keyring.is_current(old)
    new = keyring.seal("secret", bound_to=BINDING)
    assert keyring.is_current(new)
    with pytest.raises(UnknownKey, match="k2"):
        KEYRING.open(new, bound_to=BINDING)


def test_another_key_with_the_same_id_and_another_id_with_the_same_key_do_not_open() -> None:
    blob = KEYRING.seal("secret", bound_to=BINDING)
    assert_closed(blob, Keyring({"k1": OTHER_KEY}, "k1"))
    assert_closed(encoded(decoded(blob).replace(b"k1", b"k2", 1)), Keyring({"k1": KEY, "k2": KEY}, "k1"))


@each_row(
    ("keys", "primary"),
    [
        *(({}, "k1"), ({"k1": KEY}, "k2")),
        *(({"k1": key}, "k1") for key in (KEY[:16], KEY + b"x")),
        *(({key_id: KEY}, key_id) for key_id in ("", "k\n", "k" * 33)),
    ],
)
def test_an_invalid_keyring_is_refused(keys: dict[str, bytes], primary: str) -> None:
    with pytest.raises(ValueError, match="key"):
        Keyring(keys, primary)


@each_row("binding", [(), ("",), ("ten_1", "")])
def test_refuses_to_seal_without_a_binding(binding: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="bound to"):
        KEYRING.seal("secret", bound_to=binding)


def test_a_keyring_keeps_its_own_keys_and_never_shows_them() -> None:
    keys = {"k1": KEY}
    keyring = Keyring(keys, "k1")
    keys["k1"] = OTHER_KEY
    assert KEYRING.open(keyring.seal("secret", bound_to=BINDING), bound_to=BINDING) == "secret"
    shown = f"{KEYRING!r} {KEYRING}"
    assert [word in shown for word in ("k1", KEY.hex(), repr(KEY)[2:-1])] == [True, False, False]


def wycheproof_vectors() -> list[Any]:
    """Return the vectors with 256-bit keys, 96-bit nonces and 128-bit tags."""
    if VECTORS is None:
        return []
    groups = json.loads(VECTORS.read_text(encoding="utf-8"))["testGroups"]
    supported = [group for group in groups if (group["keySize"], group["ivSize"], group["tagSize"]) == (256, 96, 128)]
    return [pytest.param(test, id=f"{test['tcId']}-{test['result']}") for group in supported for test in group["tests"]]


@pytest.mark.skipif(VECTORS is None, reason="../shared/attacks/aead is absent")
@each_row("vector", wycheproof_vectors())
@pytest.mark.asvs("11.3.2")
def test_wycheproof_aes_gcm(vector: dict[str, str]) -> None:
    key, nonce, aad, plain = (bytes.fromhex(vector[name]) for name in ("key", "iv", "aad", "msg"))
    sealed = bytes.fromhex(vector["ct"] + vector["tag"])
    if vector["result"] == "valid":
        assert encrypt(key, nonce, plain, aad) == sealed
        assert decrypt(key, nonce, sealed, aad) == plain
    else:
        with pytest.raises(CannotOpen):
            decrypt(key, nonce, sealed, aad)
