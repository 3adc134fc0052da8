import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.kit.cipher import CannotOpen, Keyring, UnknownKey, decrypt, encrypt

VECTORS = next(iter((Path(__file__).parents[2].parent / "shared" / "attacks" / "aead").glob("**/*aes_gcm_test.json")), None)
KEY, OTHER_KEY = bytes(range(32)), bytes(range(1, 33))
RING = Keyring({"k1": KEY}, "k1")
PLACE = ("ten_1", "bkt_1", "secret_access_key")

places = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4).map(tuple)


def decoded(blob: str) -> bytes:
    return base64.urlsafe_b64decode(blob + "=" * (-len(blob) % 4))


@given(plaintext=st.text(), place=places)
def test_what_is_sealed_opens_again_in_its_place(plaintext: str, place: tuple[str, ...]) -> None:
    assert RING.open(RING.seal(plaintext, bound_to=place), bound_to=place) == plaintext


@given(place=places, other=places)
@pytest.mark.asvs("11.3.3")
def test_a_secret_opens_in_no_other_place(place: tuple[str, ...], other: tuple[str, ...]) -> None:
    blob = RING.seal("s", bound_to=place)
    if other != place:
        with pytest.raises(CannotOpen):
            RING.open(blob, bound_to=other)


@pytest.mark.parametrize(
    "other", [("ab", "c"), ("a", "b", "c"), ("abc",), ("c", "ab"), ("a", "bc", "d"), ("a",), ("a\x00bc",), ("a\x00\x00\x00\x02bc",)]
)
def test_places_that_look_alike_when_joined_are_told_apart(other: tuple[str, ...]) -> None:
    with pytest.raises(CannotOpen):
        RING.open(RING.seal("s", bound_to=("a", "bc")), bound_to=other)


@given(data=st.data(), plaintext=st.text(max_size=20))
@pytest.mark.asvs("11.3.3")
def test_any_changed_bit_is_refused(data: st.DataObject, plaintext: str) -> None:
    blob = RING.seal(plaintext, bound_to=PLACE)
    raw = bytearray(decoded(blob))
    bit = data.draw(st.integers(0, len(raw) * 8 - 1))
    raw[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CannotOpen):
        RING.open(base64.urlsafe_b64encode(raw).rstrip(b"=").decode(), bound_to=PLACE)


@given(data=st.data())
def test_a_blob_cut_short_is_refused(data: st.DataObject) -> None:
    blob = RING.seal("secret", bound_to=PLACE)
    with pytest.raises(CannotOpen):
        RING.open(blob[: data.draw(st.integers(0, len(blob) - 1))], bound_to=PLACE)


@given(blob=st.text())
def test_arbitrary_text_is_refused_by_name(blob: str) -> None:
    with pytest.raises(CannotOpen):
        RING.open(blob, bound_to=PLACE)


@pytest.mark.parametrize("change", ["{}=", "{}==", "{}\n", " {}", "{}A"])
def test_a_blob_has_one_form_only(change: str) -> None:
    blob = RING.seal("secret", bound_to=PLACE)
    with pytest.raises(CannotOpen):
        RING.open(change.format(blob), bound_to=PLACE)


@pytest.mark.parametrize("plaintext", ["", "s", "se"])
def test_stray_bits_in_the_last_character_are_refused(plaintext: str) -> None:
    blob = RING.seal(plaintext, bound_to=PLACE)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    alike = [blob[:-1] + letter for letter in letters if base64.urlsafe_b64decode(blob[:-1] + letter + "==") == decoded(blob)]
    assert blob in alike
    for other in set(alike) - {blob}:
        with pytest.raises(CannotOpen, match="base64url"):
            RING.open(other, bound_to=PLACE)


@pytest.mark.asvs("11.3.2", "11.5.1")
def test_the_same_secret_never_seals_alike() -> None:
    assert len({RING.seal("secret", bound_to=PLACE) for _ in range(500)}) == 500


def test_the_primary_seals_and_an_older_key_still_opens() -> None:
    old = RING.seal("secret", bound_to=PLACE)
    ring = Keyring({"k1": KEY, "k2": OTHER_KEY}, "k2")
    assert ring.open(old, bound_to=PLACE) == "secret"
    assert not ring.is_current(old)
    new = ring.seal("secret", bound_to=PLACE)
    assert ring.is_current(new)
    with pytest.raises(UnknownKey, match="k2"):
        RING.open(new, bound_to=PLACE)


def test_another_key_under_the_same_id_opens_nothing() -> None:
    with pytest.raises(CannotOpen):
        Keyring({"k1": OTHER_KEY}, "k1").open(RING.seal("secret", bound_to=PLACE), bound_to=PLACE)


def test_one_key_under_two_ids_does_not_let_the_id_be_changed() -> None:
    ring = Keyring({"k1": KEY, "k2": KEY}, "k1")
    blob = ring.seal("secret", bound_to=PLACE)
    raw = decoded(blob).replace(b"k1", b"k2", 1)
    with pytest.raises(CannotOpen):
        ring.open(base64.urlsafe_b64encode(raw).rstrip(b"=").decode(), bound_to=PLACE)


@pytest.mark.parametrize(
    ("keys", "primary"),
    [({}, "k1"), ({"k1": KEY}, "k2"), ({"k1": KEY[:16]}, "k1"), ({"k1": KEY + b"x"}, "k1"), ({"": KEY}, ""), ({"k\n": KEY}, "k\n"), ({"k" * 33: KEY}, "k" * 33)],
)  # fmt: skip
def test_a_ring_that_cannot_be_trusted_is_refused(keys: dict[str, bytes], primary: str) -> None:
    with pytest.raises(ValueError, match="key"):
        Keyring(keys, primary)


@pytest.mark.parametrize("place", [(), ("",), ("ten_1", "")])
def test_a_secret_is_never_sealed_without_a_place(place: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="bound to"):
        RING.seal("secret", bound_to=place)


def test_a_caller_cannot_change_the_ring_afterwards() -> None:
    keys = {"k1": KEY}
    ring = Keyring(keys, "k1")
    keys["k1"] = OTHER_KEY
    assert RING.open(ring.seal("secret", bound_to=PLACE), bound_to=PLACE) == "secret"


def test_repr_never_shows_a_key() -> None:
    shown = f"{RING!r} {RING}"
    assert "k1" in shown
    assert KEY.hex() not in shown
    assert repr(KEY)[2:-1] not in shown


def vectors() -> list[Any]:
    """Those of the sizes in use here: 256-bit keys, 96-bit nonces, 128-bit tags."""
    if VECTORS is None:
        return []
    groups = json.loads(VECTORS.read_text(encoding="utf-8"))["testGroups"]
    ours = [group for group in groups if (group["keySize"], group["ivSize"], group["tagSize"]) == (256, 96, 128)]
    return [pytest.param(test, id=f"{test['tcId']}-{test['result']}") for group in ours for test in group["tests"]]


@pytest.mark.skipif(VECTORS is None, reason="../shared/attacks/aead is absent")
@pytest.mark.parametrize("vector", vectors())
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
