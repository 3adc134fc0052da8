"""The text of API keys: form, checksum, parsing, and reprs that hide the secret."""

import hashlib
import re
import zlib

from hypothesis import given
from hypothesis import strategies as st

from sluice.api_keys.secret import IssuedKey, KeyMode, PresentedKey, has_key_form, new_key, parse_key, same_secret
from tests.rows import each_row

modes = st.sampled_from(KeyMode)
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def matches_stored(key: IssuedKey, presented: PresentedKey | None) -> bool:
    assert presented is not None
    return presented.key_prefix == key.key_prefix and same_secret(key.secret_hash, presented)


def checksum(body: str) -> str:
    """Return the CRC-32 of a text in base 62."""
    number = zlib.crc32(body.encode())
    return "".join(DIGITS[number // 62**place % 62] for place in reversed(range(6)))


@given(mode=modes)
def test_a_key_has_the_documented_form_and_is_parsed_back(mode: KeyMode) -> None:
    key = new_key(mode)
    assert re.fullmatch(rf"sl_{mode}_[0-9A-Za-z]{{12}}_[0-9A-Za-z]{{49}}", key.text)
    assert key.key_prefix == f"sl_{mode}_{key.public_id}"
    assert key.text.startswith(key.key_prefix + "_")
    assert key.secret_hash == hashlib.sha256(key.text[21:64].encode()).digest()
    assert key.text[-6:] == checksum(key.text[:-6])
    presented = parse_key(key.text)
    assert presented is not None
    assert (presented.mode, presented.public_id, presented.key_prefix) == (mode, key.public_id, key.key_prefix)
    assert matches_stored(key, presented)


@given(data=st.data(), mode=modes)
def test_a_key_with_any_changed_character_is_refused(data: st.DataObject, mode: KeyMode) -> None:
    text = new_key(mode).text
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.one_of(st.sampled_from(DIGITS + "_-"), st.characters()).filter(lambda c: c != text[place]))
    assert parse_key(text[:place] + other + text[place + 1 :]) is None


@given(data=st.data(), mode=modes)
def test_a_key_with_a_character_added_or_removed_is_refused(data: st.DataObject, mode: KeyMode) -> None:
    text = new_key(mode).text
    place = data.draw(st.integers(0, len(text) - 1))
    assert parse_key(text[:place] + text[place + 1 :]) is None
    assert parse_key(text[:place] + data.draw(st.characters()) + text[place:]) is None


@given(text=st.text())
def test_arbitrary_text_is_not_a_key(text: str) -> None:
    valid = new_key(KeyMode.LIVE).text
    assert parse_key(valid[:10] + "١" + valid[11:]) is None
    assert parse_key(text) is None
    assert parse_key("sl_live_" + text) is None


@each_row("place", [0, 2, 7, 20])
def test_a_wrong_prefix_or_separator_is_refused_despite_a_valid_checksum(place: int) -> None:
    text = new_key(KeyMode.LIVE).text
    body = text[:place] + "x" + text[place + 1 : -6]
    assert parse_key(body + checksum(body)) is None


def test_a_test_key_rewritten_as_a_live_key_and_another_secret_do_not_match() -> None:
    test, live, other = new_key(KeyMode.TEST), new_key(KeyMode.LIVE), new_key(KeyMode.LIVE)
    rewritten = test.text[:-6].replace("sl_test_", "sl_live_")
    for key, body in ((test, rewritten), (live, live.key_prefix + other.text[20:64])):
        assert not matches_stored(key, parse_key(body + checksum(body)))


def test_text_has_the_form_of_a_key_by_its_prefix() -> None:
    keys = ["sl_live_", "sl_test_x", "sl_live_ no key at all"]
    others = ["", "eyJhbGciOiJFZERTQSJ9.e30.AA", "sl_dev_", "SL_LIVE_", " sl_live_"]
    assert [text for text in keys + others if has_key_form(text)] == keys


def test_keys_differ_in_every_part() -> None:
    keys = [new_key(KeyMode.LIVE) for _ in range(200)]
    assert len({key.public_id for key in keys}) == len({key.secret_hash for key in keys}) == 200


@given(mode=modes)
def test_no_repr_shows_the_secret_or_its_hash(mode: KeyMode) -> None:
    key = new_key(mode)
    shown = f"{key!r} {key} {parse_key(key.text)!r}"
    assert key.public_id in shown
    secrets = (key.text[21:], repr(key.secret_hash)[2:-1], key.secret_hash.hex())
    assert not [part for part in secrets if part in shown]
