"""Key sets of issuers: which keys are accepted, and which key verifies a token."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from sluice.identity.jwks import NotJwks, TrustedKey, parse_jwks, pick_key
from sluice.identity.tokens import ALGORITHMS
from tests.identity.tokens import b64, ed_key, jwk, jwks, key_for, rsa_key
from tests.rows import each_row


def parse_one(member: object, algorithms: frozenset[str] = ALGORITHMS) -> TrustedKey | None:
    keys = parse_jwks(jwks(member), algorithms)  # type: ignore[arg-type]  # some tests send members of other types
    return keys[0] if keys else None


@each_row("algorithm, expected", [("RS256", {"RS256", "PS256"}), ("ES256", {"ES256"}), ("EdDSA", {"EdDSA", "Ed25519"})])
def test_each_key_type_is_parsed_with_its_algorithms(algorithm: str, expected: set[str]) -> None:
    key = parse_one(jwk(key_for(algorithm), kid="k1"))
    assert key is not None
    assert (key.key_id, key.algorithms, key.public) == ("k1", frozenset(expected), key_for(algorithm).public_key())


@each_row(
    "members, issuers, expected",
    [
        ({"alg": "PS256"}, ALGORITHMS, {"PS256"}),
        ({}, {"RS256"}, {"RS256"}),
        ({"alg": "PS256"}, {"RS256"}, None),
        ({}, {"EdDSA"}, None),
    ],
)
def test_alg_member_and_issuer_restrict_algorithms_of_a_key(
    members: dict[str, str], issuers: set[str], expected: set[str] | None
) -> None:
    key = parse_one(jwk(rsa_key(), **members), frozenset(issuers))
    assert (None if key is None else key.algorithms) == expected


@each_row(
    "members",
    [
        *({"use": use} for use in ("enc", "", ["sig"])),
        *({"key_ops": ops} for ops in (["sign"], [], "verify", ["encrypt", "wrapKey"])),
        *({"alg": alg} for alg in ("RSA-OAEP", "RS512", "HS256", "ES256", ["RS256"])),
        *({"kid": kid} for kid in (1, ["k1"])),
        *({"n": n} for n in (None, 5, "", b64(b"\xff" * 1025))),
        *({"e": e} for e in (None, "AQ", "AA", "AQAB=")),
        *({"kty": kty} for kty in ("EC", ["RSA"], None)),
        {"kty": "oct", "k": "AAAA"},
        {"d": "AQAB"},
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


@pytest.mark.asvs("11.2.3", "11.6.1")
@each_row("bits, minimum, is_accepted", [(2048, 2048, True), (2048, 3072, False), (3072, 3072, True)])
def test_rsa_key_below_configured_minimum_is_ignored(bits: int, minimum: int, *, is_accepted: bool) -> None:
    assert parse_one(jwk(rsa_key("short", 1024))) is None
    keys = parse_jwks(jwks(jwk(rsa_key(f"{bits} bits", bits)), jwk(ed_key(), kid="beside")), ALGORITHMS, minimum)
    assert len(keys) == 1 + is_accepted


OTHER_POINT = ec.generate_private_key(ec.SECP256K1()).public_key().public_numbers()


@each_row(
    "kind, members",
    [
        *(("ES256", {"crv": curve}) for curve in ("P-384", "secp256k1", None)),
        *(("ES256", {"x": b64(bytes(length))}) for length in (31, 33)),
        ("ES256", {"alg": "ES384"}),
        ("ES256", {"y": b64(bytes(32))}),  # a point that is not on the curve
        ("ES256", {name: b64(getattr(OTHER_POINT, name).to_bytes(32, "big")) for name in "xy"}),
        *(("EdDSA", {"crv": curve}) for curve in ("X25519", "Ed448", None)),
        *(("EdDSA", {"x": b64(bytes(length))}) for length in (31, 57)),
    ],
)
@pytest.mark.asvs("11.6.1")
def test_key_of_another_curve_is_ignored(kind: str, members: dict[str, object]) -> None:
    assert parse_one(jwk(key_for(kind), **members)) is None


def test_unusable_keys_do_not_affect_other_keys() -> None:
    keys = parse_jwks(jwks({"kty": "future"}, jwk(rsa_key(), use="enc"), jwk(ed_key(), kid="good")), ALGORITHMS)
    assert [key.key_id for key in keys] == ["good"]


@each_row("member", [None, 1, "key", [], [{}], {}])
def test_keys_of_wrong_json_type_are_ignored(member: object) -> None:
    assert parse_one(member) is None


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
    assert parse_jwks(b'{"keys": []}', ALGORITHMS) == ()
    with pytest.raises(NotJwks):
        parse_jwks(raw, ALGORITHMS)


def test_key_is_picked_by_id_and_algorithm_or_as_the_sole_one() -> None:
    one, two, rsa = jwk(ed_key(), kid="a"), jwk(ed_key("two"), kid="b"), jwk(rsa_key(), kid="a")
    keys = parse_jwks(jwks(one, two, rsa), ALGORITHMS)
    wanted = [("EdDSA", "a"), ("RS256", "a"), ("RS256", "b"), ("EdDSA", "c"), ("EdDSA", None), ("RS256", None)]
    assert [pick_key(keys, *each) for each in wanted] == [keys[0], keys[2], None, None, None, keys[2]]
    same_id = parse_jwks(jwks(one, jwk(ed_key("two"), kid="a")), ALGORITHMS)
    assert pick_key(same_id, "EdDSA", "a") is None
