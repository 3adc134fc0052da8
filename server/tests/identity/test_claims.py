"""The validation of claims: required claims, times, tenant, name and scopes."""

import dataclasses

import pytest

from sluice.identity.protocol import Claims, InvalidToken
from sluice.identity.tokens import validate_claims
from tests.identity.tokens import CLAIMS, NOW, RULES
from tests.rows import each_row

NOW_SECONDS = NOW.timestamp()


def validate(**changes: object) -> Claims:
    return validate_claims(CLAIMS | changes, RULES, now=NOW_SECONDS)


def assert_refused(why: str, **changes: object) -> None:
    with pytest.raises(InvalidToken, match=why):
        validate(**changes)


def test_valid_claims_are_returned() -> None:
    assert validate() == Claims(issuer=RULES.issuer, subject="user-1", tenant_id="ten_1", name="user-1", scopes=None)


@each_row("claim", ["iss", "aud", "exp", "sub", "tenant_id"])
def test_missing_required_claim_is_refused(claim: str) -> None:
    without = {name: value for name, value in CLAIMS.items() if name != claim}
    with pytest.raises(InvalidToken):
        validate_claims(without, RULES, now=NOW_SECONDS)


@each_row("issuer", ["https://other.example", RULES.issuer + "/", RULES.issuer.upper(), "", None, 1, [RULES.issuer]])
def test_other_issuer_is_refused(issuer: object) -> None:
    assert_refused("issuer", iss=issuer)


@each_row("audience", ["sluice", ["sluice"], ["other", "sluice"]])
def test_audience_that_contains_ours_is_accepted(audience: object) -> None:
    assert validate(aud=audience).subject == "user-1"


@each_row(
    "audience",
    ["other", "sluice2", "sluice other", "", [], ["other"], None, 1, {"sluice": 1}, ["sluice", 1], [["sluice"]]],
)
def test_other_audience_is_refused(audience: object) -> None:
    assert_refused("audience", aud=audience)


def test_token_is_valid_until_exp() -> None:
    for valid, expired in ((NOW_SECONDS + 0.001, NOW_SECONDS), (10**400, -(10**400))):
        assert validate(exp=valid).subject == "user-1"
        assert_refused("expired", exp=expired)


@each_row("timestamp", ["1893456060", None, True, [1], {}])
@each_row("claim", ["exp", "nbf", "iat"])
def test_non_numeric_timestamp_is_refused(claim: str, timestamp: object) -> None:
    assert_refused(f"{claim} is not a number", **{claim: timestamp})


@each_row("claim", ["nbf", "iat"])
def test_nbf_and_iat_allow_configured_leeway(claim: str) -> None:
    assert validate(**{claim: NOW_SECONDS + 30}).subject == "user-1"
    assert_refused(f"{claim} is still to come", **{claim: NOW_SECONDS + 30.001})
    strict = dataclasses.replace(RULES, leeway=0)
    with pytest.raises(InvalidToken, match=claim):
        validate_claims(CLAIMS | {claim: NOW_SECONDS + 1}, strict, now=NOW_SECONDS)


@each_row("text", ["", " ", "x" * 256, "a\nb", "a\0b", "a\u202eb", "\ud800", None, 1, True, ["ten_1"], {"id": "ten_1"}])
def test_subject_must_be_plain_text(text: object) -> None:
    assert_refused("sub is not a plain text", sub=text)


@each_row(
    "tenant_id",
    [
        *("", " ", ".", "..", "../ten_1", "a/b", "a\\b", "a b", "ten_1\n", "\nten_1", "ten.1", "tén", "ten_1\0"),
        "%2e%2e",
        *("x" * 65, "x" * 255, "x" * 256, "a\u202eb", "\ud800", "\u0661", "{tenant_id}", "ten:1"),
        *(None, 1, True, ["ten_1"], {"id": "ten_1"}),
    ],
)
@pytest.mark.asvs("2.2.1")
def test_tenant_must_be_an_id(tenant_id: object) -> None:
    assert_refused("tenant_id is not 1 to 64 letters, digits, hyphens and underscores", tenant_id=tenant_id)


@each_row("tenant_id", ["ten_1", "A", "0b7e6f1c-9d2a-4c7e-8b1f-2f5a6d3c4e5f", "x" * 64, "_", "-"])
def test_ids_of_issuers_are_accepted_as_tenants(tenant_id: str) -> None:
    assert validate(tenant_id=tenant_id).tenant_id == tenant_id


def test_tenant_claim_name_is_configurable() -> None:
    rules = dataclasses.replace(RULES, tenant_claim="https://example.com/org")
    assert validate_claims(CLAIMS | {"https://example.com/org": "ten_9"}, rules, now=NOW_SECONDS).tenant_id == "ten_9"
    with pytest.raises(InvalidToken, match="org"):
        validate_claims(CLAIMS, rules, now=NOW_SECONDS)


@each_row(
    "claims, name",
    [
        ({"name": "Ada", "email": "ada@example.com"}, "Ada"),
        ({"email": "ada@example.com"}, "ada@example.com"),
        ({"name": "", "email": "ada@example.com"}, "ada@example.com"),
        ({"name": 1, "email": None}, "user-1"),
        ({"name": "Ada\u202eecilA"}, "user-1"),
        ({"name": "Zoë 李"}, "Zoë 李"),
    ],
)
def test_display_name_falls_back_to_email_then_subject(claims: dict[str, object], name: str) -> None:
    assert validate(**claims).name == name


@each_row(
    "claims, scopes",
    [
        ({}, None),
        ({"scope": "upload metadata"}, {"upload", "metadata"}),
        ({"scope": ""}, set()),
        ({"scope": "  upload  "}, {"upload"}),
        ({"scopes": ["upload", "delete"]}, {"upload", "delete"}),
        ({"scopes": []}, set()),
        ({"scopes": "upload delete"}, {"upload", "delete"}),
        ({"scope": "upload", "scopes": ["admin"]}, {"upload"}),
        ({"scope": "", "scopes": ["admin"]}, set()),
    ],
)
def test_scope_claim_takes_precedence_over_scopes_claim(claims: dict[str, object], scopes: set[str] | None) -> None:
    assert validate(**claims).scopes == scopes


@each_row(
    "claims",
    [{"scope": ["upload"]}, {"scope": None}, {"scope": 1}, {"scopes": None}, {"scopes": [1]}, {"scopes": {"admin": 1}}],
)
def test_scopes_of_wrong_type_are_refused(claims: dict[str, object]) -> None:
    assert_refused("scopes", **claims)


@each_row(
    "issuer, subject, user_id",
    [
        ("sluice", "user-1", "sluice|user-1"),
        ("https://a.example", "x|y", "https://a.example|x|y"),
        ("https://a.example|x", "y", "https://a.example%7Cx|y"),
        ("https://a.example%7Cx", "y", "https://a.example%257Cx|y"),
    ],
)
def test_user_id_combines_issuer_and_subject(issuer: str, subject: str, user_id: str) -> None:
    assert Claims(issuer, subject, "ten_1", "Ada", None).user_id == user_id


def test_long_user_id_is_hashed() -> None:
    long = [Claims("https://a.example", "x" * 254 + last, "ten_1", "Ada", None).user_id for last in "ab"]
    assert len(set(long)) == 2
    assert all(len(user_id) <= 255 and user_id.startswith("sha256|") for user_id in long)
