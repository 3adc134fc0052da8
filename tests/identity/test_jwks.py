"""Key sets of issuers: which keys are accepted, and which key verifies a token."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from sluice.identity.jwks import NotJwks, TrustedKey, parse_jwks, pick_key
from sluice.identity.tokens import ALGORITHMS
from tests.identity.tokens import b64, ec_key, ed_key, jwk, jwks, key_for, rsa_key
from tests.rows import each_row


def parse_one(member: object, algorithms: frozenset[str] = ALGORITHMS) -> TrustedKey | None:
    keys = parse_jwks(jwks(member), algorithms)  # type: ignore[arg-type]  # some tests send members of other types
    return keys[0] if keys else None


@each_row("algorithm, expected", [("RS256", {"RS256", "PS256"}), ("ES256", {"ES256"}), ("EdDSA", {"EdDSA"})])
def test_each_key_type_is_parsed_with_its_algorithms(algorithm: str, expected: set[str]) -> None:
    key = parse_one(jwk(key_for(algorithm), kid="k1"))
    assert key is not None
    assert key.key_id == "k1"
    assert key.algorithms == expected
    assert key.public == key_for(algorithm).public_key()


def test_alg_member_restricts_key_to_one_algorithm() -> None:
    key = parse_one(jwk(rsa_key(), alg="PS256"))
    assert key is not None
    assert key.algorithms == {"PS256"}


def test_key_is_restricted_to_issuer_algorithms() -> None:
    key = parse_one(jwk(rsa_key()), frozenset({"RS256"}))
    assert key is not None
    assert key.algorithms == {"RS256"}
    assert parse_one(jwk(rsa_key(), alg="PS256"), frozenset({"RS256"})) is None
    assert parse_one(jwk(ed_key()), frozenset({"RS256"})) is None


@each_row(
    "members",
    [
        {"use": "enc"},
        {"use": ""},
        {"use": ["sig"]},
        {"key_ops": ["sign"]},
        {"key_ops": []},
        {"key_ops": "verify"},
        {"key_ops": ["encrypt", "wrapKey"]},
        {"alg": "RSA-OAEP"},
        {"alg": "RS512"},
        {"alg": "HS256"},
        {"alg": "ES256"},
        {"alg": ["RS256"]},
        {"kid": 1},
        {"kid": ["k1"]},
        {"d": "AQAB"},
        {"n": None},
        {"e": None},
        {"n": 5},
        {"n": ""},
        {"e": "AQ"},
        {"e": "AA"},
        {"e": "AQAB="},
        {"kty": "oct", "k": "AAAA"},
        {"kty": "EC"},
        {"kty": ["RSA"]},
        {"kty": None},
    ],
)
def test_unusable_rsa_key_is_ignored(members: dict[str, object]) -> None:
    assert parse_one(jwk(rsa_key(), **members)) is None


@each_row(
    "members",
    [{"use": "sig"}, {"key_ops": ["verify"]}, {"use": "sig", "key_ops": ["verify"], "alg": "RS256"}, {"x5c": ["MIIB"]}],
)
def test_rsa_key_for_verification_is_accepted(members: dict[str, object]) -> None:
    assert parse_one(jwk(rsa_key(), **members)) is not None


@pytest.mark.asvs("11.6.1")
def test_short_rsa_key_is_ignored() -> None:
    assert parse_one(jwk(rsa_key("short", 1024))) is None


@pytest.mark.asvs("11.2.3")
@each_row("bits, minimum, is_accepted", [(2048, 2048, True), (2048, 3072, False), (3072, 3072, True)])
def test_rsa_key_below_configured_minimum_is_ignored(bits: int, minimum: int, *, is_accepted: bool) -> None:
    keys = parse_jwks(jwks(jwk(rsa_key(f"{bits} bits", bits)), jwk(ed_key(), kid="beside")), ALGORITHMS, minimum)
    assert len(keys) == 1 + is_accepted


def test_oversized_rsa_key_is_ignored() -> None:
    assert parse_one(jwk(rsa_key(), n=b64(b"\xff" * 1025))) is None


@pytest.mark.asvs("11.6.1")
def test_point_not_on_the_curve_is_ignored() -> None:
    assert parse_one(jwk(ec_key(), y=b64(bytes(32)))) is None


@each_row(
    "members",
    [
        {"crv": "P-384"},
        {"crv": "secp256k1"},
        {"crv": None},
        {"x": b64(bytes(31))},
        {"x": b64(bytes(33))},
        {"alg": "ES384"},
    ],
)
def test_ec_key_of_another_curve_is_ignored(members: dict[str, object]) -> None:
    assert parse_one(jwk(ec_key(), **members)) is None


def test_ec_coordinates_of_another_curve_are_ignored() -> None:
    point = ec.generate_private_key(ec.SECP256K1()).public_key().public_numbers()
    assert parse_one(jwk(ec_key(), x=b64(point.x.to_bytes(32, "big")), y=b64(point.y.to_bytes(32, "big")))) is None


@each_row("members", [{"crv": "X25519"}, {"crv": "Ed448"}, {"crv": None}, {"x": b64(bytes(31))}, {"x": b64(bytes(57))}])
@pytest.mark.asvs("11.6.1")
def test_okp_key_of_another_curve_is_ignored(members: dict[str, object]) -> None:
    assert parse_one(jwk(ed_key(), **members)) is None


def test_unusable_keys_do_not_affect_other_keys() -> None:
    keys = parse_jwks(jwks({"kty": "future"}, jwk(rsa_key(), use="enc"), jwk(ed_key(), kid="good")), ALGORITHMS)
    assert [key.key_id for key in keys] == ["good"]


@each_row("member", [None, 1, "key", [], [{}], {}])
def test_keys_of_wrong_json_type_are_ignored(member: object) -> None:
    assert parse_one(member) is None


def test_empty_key_set_is_valid() -> None:
    assert parse_jwks(b'{"keys": []}', ALGORITHMS) == ()


@each_row(
    "raw",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": null}',
        b'{"keys": [], "keys": []}',
        b"<html>",
        b"\xff",
        b"[" * 60000,
    ],
)
def test_invalid_key_set_is_refused(raw: bytes) -> None:
    with pytest.raises(NotJwks):
        parse_jwks(raw, ALGORITHMS)


def test_key_is_picked_by_id_and_algorithm() -> None:
    keys = parse_jwks(jwks(jwk(ed_key(), kid="a"), jwk(ed_key("two"), kid="b"), jwk(rsa_key(), kid="a")), ALGORITHMS)
    assert pick_key(keys, "EdDSA", "a") is keys[0]
    assert pick_key(keys, "RS256", "a") is keys[2]
    assert pick_key(keys, "RS256", "b") is None
    assert pick_key(keys, "EdDSA", "c") is None


def test_missing_key_id_picks_only_a_sole_key() -> None:
    keys = parse_jwks(jwks(jwk(ed_key(), kid="a"), jwk(ed_key("two"), kid="b"), jwk(rsa_key())), ALGORITHMS)
    assert pick_key(keys, "EdDSA", None) is None
    assert pick_key(keys, "RS256", None) is keys[2]


def test_two_keys_with_same_id_are_ambiguous() -> None:
    keys = parse_jwks(jwks(jwk(ed_key(), kid="a"), jwk(ed_key("two"), kid="a")), ALGORITHMS)
    assert pick_key(keys, "EdDSA", "a") is None
