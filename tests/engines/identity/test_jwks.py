import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from sluice.engines.identity.jose import ALGORITHMS
from sluice.engines.identity.jwks import NotJwks, TrustedKey, pick_key, read_jwks
from tests.engines.identity.tokens import b64, ec_key, ed_key, jwk, jwks, key_for, rsa_key


def read_one(member: object, algorithms: frozenset[str] = ALGORITHMS) -> TrustedKey | None:
    keys = read_jwks(jwks(member), algorithms)  # type: ignore[arg-type]  # members of other types are what some tests send
    return keys[0] if keys else None


@pytest.mark.parametrize(("algorithm", "may"), [("RS256", {"RS256", "PS256"}), ("ES256", {"ES256"}), ("EdDSA", {"EdDSA"})])
def test_a_key_of_each_kind_is_read_with_the_algorithms_of_its_kind(algorithm: str, may: set[str]) -> None:
    key = read_one(jwk(key_for(algorithm), kid="k1"))
    assert key is not None
    assert key.key_id == "k1"
    assert key.algorithms == may
    assert key.public == key_for(algorithm).public_key()


def test_the_keys_own_algorithm_is_the_only_one() -> None:
    key = read_one(jwk(rsa_key(), alg="PS256"))
    assert key is not None
    assert key.algorithms == {"PS256"}


def test_only_the_issuers_algorithms_count() -> None:
    key = read_one(jwk(rsa_key()), frozenset({"RS256"}))
    assert key is not None
    assert key.algorithms == {"RS256"}
    assert read_one(jwk(rsa_key(), alg="PS256"), frozenset({"RS256"})) is None
    assert read_one(jwk(ed_key()), frozenset({"RS256"})) is None


@pytest.mark.parametrize(
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
def test_an_rsa_key_that_is_not_for_us_is_left_out(members: dict[str, object]) -> None:
    assert read_one(jwk(rsa_key(), **members)) is None


@pytest.mark.parametrize(
    "members", [{"use": "sig"}, {"key_ops": ["verify"]}, {"use": "sig", "key_ops": ["verify"], "alg": "RS256"}, {"x5c": ["MIIB"]}]
)
def test_an_rsa_key_that_says_it_verifies_is_kept(members: dict[str, object]) -> None:
    assert read_one(jwk(rsa_key(), **members)) is not None


@pytest.mark.asvs("11.6.1")
def test_a_short_rsa_key_is_left_out() -> None:
    assert read_one(jwk(rsa_key("short", 1024))) is None


@pytest.mark.asvs("11.2.3")
@pytest.mark.parametrize(("bits", "least", "is_read"), [(2048, 2048, True), (2048, 3072, False), (3072, 3072, True)])
def test_an_rsa_key_shorter_than_is_wanted_is_left_out(bits: int, least: int, *, is_read: bool) -> None:
    keys = read_jwks(jwks(jwk(rsa_key(f"of {bits}", bits)), jwk(ed_key(), kid="beside")), ALGORITHMS, least)
    assert len(keys) == 1 + is_read


def test_an_rsa_key_of_absurd_size_is_left_out() -> None:
    assert read_one(jwk(rsa_key(), n=b64(b"\xff" * 1025))) is None


@pytest.mark.asvs("11.6.1")
def test_a_point_that_is_not_on_the_curve_is_left_out() -> None:
    assert read_one(jwk(ec_key(), y=b64(bytes(32)))) is None


@pytest.mark.parametrize(
    "members",
    [{"crv": "P-384"}, {"crv": "secp256k1"}, {"crv": None}, {"x": b64(bytes(31))}, {"x": b64(bytes(33))}, {"alg": "ES384"}],
)
def test_an_elliptic_key_of_another_curve_is_left_out(members: dict[str, object]) -> None:
    assert read_one(jwk(ec_key(), **members)) is None


def test_coordinates_of_another_curve_under_our_name_are_left_out() -> None:
    point = ec.generate_private_key(ec.SECP256K1()).public_key().public_numbers()
    assert read_one(jwk(ec_key(), x=b64(point.x.to_bytes(32, "big")), y=b64(point.y.to_bytes(32, "big")))) is None


@pytest.mark.parametrize(
    "members", [{"crv": "X25519"}, {"crv": "Ed448"}, {"crv": None}, {"x": b64(bytes(31))}, {"x": b64(bytes(57))}]
)
@pytest.mark.asvs("11.6.1")
def test_an_octet_key_of_another_curve_is_left_out(members: dict[str, object]) -> None:
    assert read_one(jwk(ed_key(), **members)) is None


def test_keys_that_are_not_for_us_do_not_spoil_the_others() -> None:
    keys = read_jwks(jwks({"kty": "future"}, jwk(rsa_key(), use="enc"), jwk(ed_key(), kid="good")), ALGORITHMS)
    assert [key.key_id for key in keys] == ["good"]


@pytest.mark.parametrize("member", [None, 1, "key", [], [{}], {}])
def test_members_of_another_type_are_left_out(member: object) -> None:
    assert read_one(member) is None


def test_a_set_without_keys_is_an_answer() -> None:
    assert read_jwks(b'{"keys": []}', ALGORITHMS) == ()


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b'{"keys": {}}', b'{"keys": null}', b'{"keys": [], "keys": []}', b"<html>", b"\xff", b"[" * 60000]
)
def test_what_is_no_key_set_is_refused(raw: bytes) -> None:
    with pytest.raises(NotJwks):
        read_jwks(raw, ALGORITHMS)


def test_a_key_is_picked_by_id_and_algorithm() -> None:
    keys = read_jwks(jwks(jwk(ed_key(), kid="a"), jwk(ed_key("two"), kid="b"), jwk(rsa_key(), kid="a")), ALGORITHMS)
    assert pick_key(keys, "EdDSA", "a") is keys[0]
    assert pick_key(keys, "RS256", "a") is keys[2]
    assert pick_key(keys, "RS256", "b") is None
    assert pick_key(keys, "EdDSA", "c") is None


def test_without_an_id_only_a_sole_key_is_picked() -> None:
    keys = read_jwks(jwks(jwk(ed_key(), kid="a"), jwk(ed_key("two"), kid="b"), jwk(rsa_key())), ALGORITHMS)
    assert pick_key(keys, "EdDSA", None) is None
    assert pick_key(keys, "RS256", None) is keys[2]


def test_two_keys_of_one_id_are_ambiguous() -> None:
    keys = read_jwks(jwks(jwk(ed_key(), kid="a"), jwk(ed_key("two"), kid="a")), ALGORITHMS)
    assert pick_key(keys, "EdDSA", "a") is None
