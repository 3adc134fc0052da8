"""The parsing of tokens and their signatures: malformed and forged tokens are rejected."""

import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from sluice.identity.protocol import InvalidToken
from sluice.identity.tokens import MAX_TOKEN_LENGTH, decode_base64url, parse_token, verify_signature
from tests.identity.tokens import CLAIMS, b64, ed_key, forge, jwk, key_for, token
from tests.rows import each_row

BASE64URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
HEADER = {"alg": "EdDSA", "typ": "JWT"}


def assert_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidToken, match=why):
        parse_token(text)


def assert_not_verified(text: str, algorithm: str, key: str = "one") -> None:
    with pytest.raises(InvalidToken, match="signature"):
        verify_signature(parse_token(text), key_for(algorithm, key).public_key())


@each_row("algorithm", ["RS256", "PS256", "ES256", "Ed25519", "EdDSA"])
def test_valid_token_is_parsed_and_verified_by_its_key_alone(algorithm: str) -> None:
    read = parse_token(token(algorithm, header={"kid": "k1"}))
    assert (read.algorithm, read.key_id, read.claims) == (algorithm, "k1", CLAIMS)
    verify_signature(read, key_for(algorithm).public_key())
    assert_not_verified(token(algorithm), algorithm, "two")


def test_rs256_signature_is_not_accepted_as_ps256() -> None:
    assert_not_verified(forge(key_for("RS256"), {"alg": "PS256"}, CLAIMS, algorithm="RS256"), "RS256")


@each_row("algorithm", ["RS256", "ES256", "EdDSA"])
@each_row("length", [1, 32, 63, 65, 256])
@pytest.mark.asvs("6.8.2")
def test_all_zero_signature_does_not_verify(algorithm: str, length: int) -> None:
    assert_not_verified(f"{token(algorithm).rsplit('.', 1)[0]}.{b64(bytes(length))}", algorithm)


@given(data=st.data())
def test_any_modified_character_is_refused(data: st.DataObject) -> None:
    text = token()
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.one_of(st.sampled_from(BASE64URL + ".="), st.characters()).filter(lambda c: c != text[place]))
    with pytest.raises(InvalidToken):
        verify_signature(parse_token(text[:place] + other + text[place + 1 :]), ed_key().public_key())


@given(text=st.text())
def test_arbitrary_text_raises_invalid_token(text: str) -> None:
    for attempt in (text, f"{text}.{text}.{text}", f"{b64(json.dumps(HEADER).encode())}.{b64(text.encode())}.AA"):
        with pytest.raises(InvalidToken):
            parse_token(attempt)


def unsigned(header: object) -> str:
    return f"{b64(json.dumps(header).encode())}.{b64(json.dumps(CLAIMS).encode())}"


UNSUPPORTED = [
    *("none", "None", "NONE", "nOnE", "", "HS256", "HS384", "HS512"),
    *("RS1", "RS512", "ES384", "eddsa", "ES256K", None, 1, True, ["EdDSA"], {"alg": "EdDSA"}),
]


@each_row("header", [*({"alg": name} for name in UNSUPPORTED), {"typ": "JWT"}])
@pytest.mark.asvs("9.1.2")
def test_unsupported_algorithm_is_refused(header: dict[str, object]) -> None:
    assert_refused(f"{unsigned(header)}.{b64(b'x')}", "algorithm")
    assert_refused(f"{unsigned(header)}.", "algorithm|base64url")
    assert_refused(forge(ed_key(), header, CLAIMS), "algorithm")


def test_public_key_used_as_hmac_secret_is_refused() -> None:
    pem = key_for("RS256").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signed = unsigned({"alg": "HS256", "typ": "JWT"})
    assert_refused(f"{signed}.{b64(hmac.digest(pem, signed.encode(), hashlib.sha256))}", "algorithm")


@each_row(
    "name, value",
    [
        *(("jwk", value) for value in (jwk(ed_key()), None)),
        *(("jku", "https://attacker.example/jwks"), ("x5u", "https://attacker.example/cert"), ("x5c", ["MIIB"])),
        *(("crit", value) for value in (["exp"], ["b64"], [], None)),
        *(("b64", False), ("b64", True), ("zip", "DEF"), ("enc", "A256GCM"), ("cty", "JWT")),
    ],
)
def test_header_with_key_or_extension_member_is_refused(name: str, value: object) -> None:
    assert_refused(forge(ed_key(), HEADER | {name: value}, CLAIMS), name)


@each_row("header", [{}, *({"typ": kind} for kind in ("JWT", "jwt", "at+jwt", "AT+JWT"))])
def test_jwt_and_at_jwt_types_and_no_type_are_accepted(header: dict[str, str]) -> None:
    assert parse_token(forge(ed_key(), {"alg": "EdDSA"} | header, CLAIMS)).algorithm == "EdDSA"


@each_row(
    "kind", ["", "JWS", "JOSE", "dpop+jwt", "secevent+jwt", "logout+jwt", "application/jwt", "JWT ", None, 1, ["JWT"]]
)
@pytest.mark.asvs("9.2.2")
def test_other_token_type_is_refused(kind: object) -> None:
    assert_refused(forge(ed_key(), HEADER | {"typ": kind}, CLAIMS), "typ")


@each_row("key_id", ["", "x" * 257, 1, None, ["k1"], {"kid": "k1"}])
def test_invalid_key_id_is_refused(key_id: object) -> None:
    assert_refused(forge(ed_key(), HEADER | {"kid": key_id}, CLAIMS), "key id")


def test_certificate_thumbprint_is_ignored() -> None:
    assert parse_token(forge(ed_key(), HEADER | {"x5t": "abc", "x5t#S256": "def"}, CLAIMS)).key_id is None


@each_row("part", [0, 1, 2])
@each_row("change", ["{}=", "{}==", "={}", "{} ", "{}\n", "+{}", "/{}", "", "{}\u0000", "é{}"])
def test_each_part_must_be_strict_base64url(part: int, change: str) -> None:
    parts = token().split(".")
    parts[part] = change.format(parts[part])
    assert_refused(".".join(parts), "base64url")


def test_nonzero_trailing_bits_are_refused() -> None:
    text = token()
    assert decode_base64url("AA") == b"\0"
    with pytest.raises(ValueError, match="the one base64url form"):
        decode_base64url("AB")
    last = BASE64URL[BASE64URL.index(text[-1]) + 1]
    assert_refused(text[:-1] + last, "the one base64url form")


def as_json(text: str) -> str:
    return json.dumps(dict(zip(("protected", "payload", "signature"), text.split("."), strict=True)))


@each_row(
    "text", lambda: ["", ".", "a.b", "a.b.c.d", "a.b.c.d.e", "..", f"{token()}.", f".{token()}", as_json(token())]
)
def test_token_must_have_three_parts(text: str) -> None:
    assert_refused(text, "three parts|base64url")


def test_token_of_maximum_length_is_parsed_and_a_longer_one_refused() -> None:
    short = token(pad="")
    long = token(pad="x" * ((MAX_TOKEN_LENGTH - len(short)) * 3 // 4 - 2))
    assert MAX_TOKEN_LENGTH - 8 < len(long) <= MAX_TOKEN_LENGTH
    assert parse_token(long).claims["sub"] == "user-1"
    assert_refused("x" * (MAX_TOKEN_LENGTH + 1), "longer than 8192")


CLAIMS_JSON = json.dumps(CLAIMS).encode()


@each_row(
    "header",
    [
        b'{"alg":"EdDSA","alg":"EdDSA"}',
        b'{"alg":"none","alg":"EdDSA"}',
        b'{"alg":"EdDSA","x":{"a":1,"a":1}}',
        b'{"alg":"EdDSA","x":NaN}',
        b'["alg","EdDSA"]',
        b'"EdDSA"',
        b"null",
        b"{'alg':'EdDSA'}",
        b'{"alg":"EdDSA"} x',
        b'\xef\xbb\xbf{"alg":"EdDSA"}',
        b'{"alg":"EdDSA","x":"\xff"}',
        b'{"alg":"EdDSA","x":"\\ud800"}',
        b'{"alg":"EdDSA","x":' + b"[" * 40 + b"]" * 40 + b"}",
    ],
)
def test_ambiguous_json_header_is_refused(header: bytes) -> None:
    assert_refused(forge(ed_key(), header, CLAIMS_JSON), "header")


def claims_with(text: bytes) -> bytes:
    return CLAIMS_JSON[:-1] + b", " + text + b"}"


@each_row(
    "claims",
    [
        claims_with(b'"sub": "user-2"'),
        claims_with(b'"tenant_id": "ten_2"'),
        claims_with(b'"exp": 1e999'),
        claims_with(b'"x": Infinity'),
        claims_with(b'"x": ' + b"9" * 5000),
        claims_with(b'"x": ' + b"[" * 2000),
        b"[]",
        b"\x80",
    ],
)
def test_ambiguous_json_claims_are_refused(claims: bytes) -> None:
    assert_refused(forge(ed_key(), HEADER, claims), "claims")


def test_refusal_message_does_not_quote_the_token() -> None:
    canary: dict[str, Any] = HEADER | {"crit": ["canary"], "kid": "canary"}
    with pytest.raises(InvalidToken) as caught:
        parse_token(forge(ed_key(), canary, CLAIMS | {"sub": "canary"}))
    assert "canary" not in str(caught.value)
