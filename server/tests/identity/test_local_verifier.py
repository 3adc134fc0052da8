"""The local key and its verifier: signed tokens are verified, and the key file is protected."""

import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from sluice.identity.local import LocalKey, LocalVerifier, key_id_of, load_local_key, make_local_key
from sluice.identity.protocol import Claims, InvalidToken, TokenVerifier
from sluice.identity.tokens import ClaimRules, decode_base64url
from sluice.kit.health import EngineState
from sluice.kit.secret_files import SecretFileRefused, make_secret_file
from tests.identity.tokens import NOW, RULES, at_now, ed_key, rsa_key, token
from tests.rows import each_row


def signed(key: LocalKey, *, lifetime: int = 60, rules: ClaimRules = RULES) -> str:
    who = {"tenant_id": "ten_1", "subject": "ada", "name": "Ada"}
    return key.sign(rules, **who, scopes={"upload", "admin"}, lifetime_seconds=lifetime, now=NOW)


def verifier(key: LocalKey, *, seconds_later: float = 0) -> TokenVerifier:
    return LocalVerifier(key.public, RULES, clock=lambda: NOW + timedelta(seconds=seconds_later))


@pytest.fixture
def key(tmp_path: Path) -> LocalKey:
    return make_local_key(tmp_path / "token.pem").key


async def test_signed_token_names_its_claims_and_key_until_it_expires(key: LocalKey) -> None:
    made, scopes = signed(key), frozenset({"upload", "admin"})
    assert await verifier(key, seconds_later=59.9).verify(made) == Claims(RULES.issuer, "ada", "ten_1", "Ada", scopes)
    with pytest.raises(InvalidToken, match="expired"):
        await verifier(key, seconds_later=60).verify(made)
    assert jwt.get_unverified_header(made) == {"alg": "EdDSA", "typ": "JWT", "kid": key_id_of(key.public)}
    assert signed(key) != made


@each_row(
    "make, why",
    [
        (lambda _key: signed(LocalKey(ed_key())), "key is not"),
        (lambda key: token(header={"kid": key_id_of(key.public)}), "signature"),
        *((lambda _key, name=name: token(name), "algorithm") for name in ("RS256", "PS256", "ES256")),
    ],
)
async def test_token_of_another_key_or_alg_is_refused(key: LocalKey, make: Callable[[LocalKey], str], why: str) -> None:
    with pytest.raises(InvalidToken, match=why):
        await verifier(key).verify(make(key))


async def test_token_without_key_id_is_verified_by_signature() -> None:
    local = LocalVerifier(ed_key().public_key(), RULES, clock=at_now)
    assert (await local.verify(token())).subject == "user-1"
    with pytest.raises(InvalidToken, match="signature"):
        await local.verify(token(key="two"))


async def test_local_verifier_is_up_and_closes_twice(key: LocalKey) -> None:
    local = verifier(key)
    assert (await local.health()).state is EngineState.UP
    await local.aclose()
    await local.aclose()


@each_row(
    "options, why",
    [
        *(({"lifetime": lifetime}, "at least a second") for lifetime in (0, -1)),
        *(
            ({"rules": ClaimRules(issuer="i", audience="a", tenant_claim=claim)}, "another meaning")
            for claim in ("sub", "iss", "scope", "name")
        ),
    ],
)
def test_sign_refuses_a_short_lifetime_and_a_reserved_claim(key: LocalKey, options: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        signed(key, **options)


def test_key_id_is_rfc_8037_thumbprint() -> None:
    x = decode_base64url("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")  # RFC 8037, appendix A.3
    assert key_id_of(Ed25519PublicKey.from_public_bytes(x)) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_local_key_is_made_once_for_its_owner_only_and_never_shown(tmp_path: Path) -> None:
    with pytest.raises(SecretFileRefused, match="cannot be opened"):
        load_local_key(tmp_path / "token.pem")
    assert not list(tmp_path.iterdir())
    first, second = make_local_key(tmp_path / "token.pem"), make_local_key(tmp_path / "token.pem")
    assert (first.made, second.made) == (True, False)
    assert second.key.public == first.key.public == load_local_key(tmp_path / "token.pem").public
    assert stat.S_IMODE((tmp_path / "token.pem").stat().st_mode) == 0o600
    assert not [word for word in ("private", first.key.private.private_bytes_raw().hex()) if word in repr(first)]


def pem(private: object, password: bytes | None = None) -> bytes:
    assert hasattr(private, "private_bytes")
    how = NoEncryption() if password is None else BestAvailableEncryption(password)
    made = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)
    assert isinstance(made, bytes)
    return made


@each_row(
    "content, why",
    [
        (lambda: b"", "not a private key"),
        (lambda: b"canary", "not a private key"),
        (lambda: pem(Ed25519PrivateKey.generate(), b"password"), "not a private key"),
        (lambda: pem(rsa_key()), "Ed25519"),
    ],
)
def test_file_without_ed25519_key_is_refused(tmp_path: Path, content: Callable[[], bytes], why: str) -> None:
    (tmp_path / "token.pem").unlink(missing_ok=True)
    make_secret_file(tmp_path / "token.pem", content())
    with pytest.raises(SecretFileRefused, match=why) as refused:
        load_local_key(tmp_path / "token.pem")
    assert "canary" not in str(refused.value)
