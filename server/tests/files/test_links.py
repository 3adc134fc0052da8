"""Signed download links and the secret they are signed with."""

import os
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.files.links import LinkSigner, load_signing_secret
from sluice.kit.ids import new_id
from sluice.kit.secret_files import SecretFileRefused, make_secret_file
from tests.rows import each_row

SECRET = bytes(range(32))
SIGNER = LinkSigner(SECRET, "https://files.example")
NOW = 1_800_000_000
BASE64URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

file_ids = st.text("0123456789ABCXYZabcxyz_-", min_size=1, max_size=40)
expiry_times = st.integers(NOW + 1, NOW + 3600)


def parts(url: str) -> tuple[str, str, str]:
    split = urlsplit(url)
    query = parse_qs(split.query, strict_parsing=True)
    return split.path.rsplit("/", 1)[1], query["expires"][0], query["signature"][0]


@given(file_id=file_ids, expires_at=expiry_times)
def test_a_signed_link_verifies_until_it_expires(file_id: str, expires_at: int) -> None:
    signed = parts(SIGNER.sign(file_id, expires_at=expires_at))
    assert SIGNER.verify(*signed, now=expires_at - 0.001)
    assert not SIGNER.verify(*signed, now=expires_at)


@given(file_id=file_ids, expires_at=expiry_times)
def test_a_link_that_saves_is_none_that_shows(file_id: str, expires_at: int) -> None:
    for inline in (False, True):
        signed = parts(SIGNER.sign(file_id, expires_at=expires_at, inline=inline))
        assert SIGNER.verify(*signed, now=NOW, inline=inline)
        assert not SIGNER.verify(*signed, now=NOW, inline=not inline)


def test_a_link_has_the_documented_form() -> None:
    file_id = new_id("file")
    url = LinkSigner(SECRET, "https://files.example/sluice/").sign(file_id, expires_at=NOW)
    assert url.startswith(f"https://files.example/sluice/api/v1/downloads/{file_id}?expires={NOW}&signature=")
    assert len(parts(url)[2]) == 43


@given(file_id=file_ids, expires_at=expiry_times, other=file_ids, later=expiry_times)
def test_a_signature_is_invalid_for_another_file_or_expiry(
    file_id: str, expires_at: int, other: str, later: int
) -> None:
    _, expires, signature = parts(SIGNER.sign(file_id, expires_at=expires_at))
    assert SIGNER.verify(other, expires, signature, now=NOW) is (other == file_id)
    assert SIGNER.verify(file_id, str(later), signature, now=NOW) is (later == expires_at)


@given(file_id=file_ids, expires_at=expiry_times, data=st.data())
@pytest.mark.asvs("11.4.1")
def test_a_signature_with_any_changed_character_is_refused(file_id: str, expires_at: int, data: st.DataObject) -> None:
    _, expires, signature = parts(SIGNER.sign(file_id, expires_at=expires_at))
    place = data.draw(st.integers(0, len(signature) - 1))
    other = data.draw(st.one_of(st.sampled_from(BASE64URL), st.characters()).filter(lambda c: c != signature[place]))
    assert not SIGNER.verify(file_id, expires, signature[:place] + other + signature[place + 1 :], now=NOW)


@given(file_id=st.text(max_size=60), expires=st.text(max_size=20), signature=st.text(max_size=60))
def test_arbitrary_link_parts_are_refused_without_an_error(file_id: str, expires: str, signature: str) -> None:
    assert not SIGNER.verify(file_id, expires, signature, now=0)


@each_row("form", ["+{}", " {}", "{} ", "0{}", "{}.0", "-{}", "{}_0", "0x{}", "{}\n", "1e9", "", "٣", "9" * 13])
def test_the_expiry_has_exactly_one_accepted_form(form: str) -> None:
    expires = form.format(NOW + 60)
    signature = SIGNER._signature("file_1", expires) if expires.isascii() else ""
    assert not SIGNER.verify("file_1", expires, signature, now=NOW)


@each_row("change", ["{}=", "{}==", " {}", "{}\n", "", "{0}{0}"])
def test_the_signature_has_exactly_one_accepted_form(change: str) -> None:
    file_id, expires, signature = parts(SIGNER.sign("file_1", expires_at=NOW + 60))
    assert not SIGNER.verify(file_id, expires, change.format(signature), now=NOW)


def test_a_link_is_refused_by_another_secret_and_a_secret_below_32_bytes_at_all() -> None:
    other = LinkSigner(os.urandom(32), "https://files.example")
    assert not other.verify(*parts(SIGNER.sign("f", expires_at=NOW + 60)), now=NOW)
    with pytest.raises(ValueError, match="32 bytes"):
        LinkSigner(b"x" * 31, "https://files.example")


@each_row(
    "file_id, expires_at, why",
    [(file_id, NOW, "file id") for file_id in ("", "a/b", "a?b", "a b", "é", "a\0b", "..", "x" * 129)]
    + [("file_1", expires_at, "moment") for expires_at in (0, -1, 10**12)],
)
def test_refuses_an_id_that_changes_the_url_and_an_invalid_expiry(file_id: str, expires_at: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SIGNER.sign(file_id, expires_at=expires_at)


def test_the_signing_secret_is_made_once_and_never_shown(tmp_path: Path) -> None:
    first, second = load_signing_secret(tmp_path / "links.secret"), load_signing_secret(tmp_path / "links.secret")
    assert (first.made, second.made) == (True, False)
    assert first.value == second.value
    assert len(first.value) == 32
    assert first.value != load_signing_secret(tmp_path / "other.secret").value
    shown = f"{first!r} {LinkSigner(first.value, 'https://files.example')!r}"
    assert [secret for secret in (first.value.hex(), repr(first.value)) if secret in shown] == []


@each_row("content", [b"", b"00" * 31, b"00" * 33, b"zz" * 32, b"\xff" * 64])
def test_a_malformed_signing_secret_is_refused(tmp_path: Path, content: bytes) -> None:
    make_secret_file(tmp_path / "links.secret", content)
    with pytest.raises(SecretFileRefused, match="does not hold 32 bytes in hex"):
        load_signing_secret(tmp_path / "links.secret")
