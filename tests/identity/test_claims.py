import dataclasses
from typing import Any

import pytest

from sluice.engines.identity.claims import read_claims
from sluice.engines.identity.protocol import Claims, InvalidToken
from tests.engines.identity.tokens import CLAIMS, NOW, RULES

AT = NOW.timestamp()


def read(**changes: object) -> Claims:
    return read_claims(CLAIMS | changes, RULES, now=AT)


def refused(why: str, **changes: object) -> None:
    with pytest.raises(InvalidToken, match=why):
        read(**changes)


def without(claim: str) -> dict[str, Any]:
    return {name: value for name, value in CLAIMS.items() if name != claim}


def test_claims_that_satisfy_the_rules_are_answered() -> None:
    assert read() == Claims(issuer=RULES.issuer, subject="user-1", tenant_id="ten_1", name="user-1", scopes=None)


@pytest.mark.parametrize("claim", ["iss", "aud", "exp", "sub", "tenant_id"])
def test_each_required_claim_is_missed(claim: str) -> None:
    with pytest.raises(InvalidToken):
        read_claims(without(claim), RULES, now=AT)


@pytest.mark.parametrize("issuer", ["https://other.example", RULES.issuer + "/", RULES.issuer.upper(), "", None, 1, [RULES.issuer]])
def test_another_issuer_is_refused(issuer: object) -> None:
    refused("issuer", iss=issuer)


@pytest.mark.parametrize("audience", ["sluice", ["sluice"], ["other", "sluice"]])
def test_an_audience_that_names_us_is_accepted(audience: object) -> None:
    assert read(aud=audience).subject == "user-1"


@pytest.mark.parametrize(
    "audience", ["other", "sluice2", "sluice other", "", [], ["other"], None, 1, {"sluice": 1}, ["sluice", 1], [["sluice"]]]
)
def test_any_other_audience_is_refused(audience: object) -> None:
    refused("audience", aud=audience)


def test_a_token_is_good_until_the_moment_of_expiry() -> None:
    assert read(exp=AT + 0.001).subject == "user-1"
    refused("expired", exp=AT)


@pytest.mark.parametrize("moment", ["1893456060", None, True, [1], {}])
@pytest.mark.parametrize("claim", ["exp", "nbf", "iat"])
def test_a_moment_that_is_no_number_is_refused(claim: str, moment: object) -> None:
    refused(f"{claim} is not a number", **{claim: moment})


def test_a_moment_beyond_any_float_is_still_judged() -> None:
    assert read(exp=10**400).subject == "user-1"
    refused("expired", exp=-(10**400))


@pytest.mark.parametrize("claim", ["nbf", "iat"])
def test_clocks_may_run_apart_by_the_leeway(claim: str) -> None:
    assert read(**{claim: AT + 30}).subject == "user-1"
    refused(f"{claim} is still to come", **{claim: AT + 30.001})


def test_a_rule_without_leeway_has_none() -> None:
    with pytest.raises(InvalidToken, match="nbf"):
        read_claims(CLAIMS | {"nbf": AT + 1}, dataclasses.replace(RULES, leeway=0), now=AT)


@pytest.mark.parametrize(
    "text", ["", " ", "x" * 256, "a\nb", "a\0b", "a\u202eb", "\ud800", None, 1, True, ["ten_1"], {"id": "ten_1"}]
)
@pytest.mark.parametrize("claim", ["sub", "tenant_id"])
def test_subject_and_tenant_are_plain_texts(claim: str, text: object) -> None:
    refused(f"{claim} is not a plain text", **{claim: text})


def test_the_tenant_claim_is_the_one_of_the_rules() -> None:
    rules = dataclasses.replace(RULES, tenant_claim="https://example.com/org")
    assert read_claims(CLAIMS | {"https://example.com/org": "ten_9"}, rules, now=AT).tenant_id == "ten_9"
    with pytest.raises(InvalidToken, match="org"):
        read_claims(CLAIMS, rules, now=AT)


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"name": "Ada", "email": "ada@example.com"}, "Ada"),
        ({"email": "ada@example.com"}, "ada@example.com"),
        ({"name": "", "email": "ada@example.com"}, "ada@example.com"),
        ({"name": 1, "email": None}, "user-1"),
        ({"name": "Ada\u202eecilA"}, "user-1"),
        ({"name": "Zoë 李"}, "Zoë 李"),
    ],
)
def test_the_name_falls_back_from_name_to_email_to_subject(claims: dict[str, object], name: str) -> None:
    assert read(**claims).name == name


@pytest.mark.parametrize(
    ("claims", "scopes"),
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
def test_scopes_are_read_from_either_claim_and_the_standard_one_wins(claims: dict[str, object], scopes: set[str] | None) -> None:
    assert read(**claims).scopes == scopes


@pytest.mark.parametrize(
    "claims", [{"scope": ["upload"]}, {"scope": None}, {"scope": 1}, {"scopes": None}, {"scopes": [1]}, {"scopes": {"admin": 1}}]
)
def test_scopes_of_another_type_are_refused(claims: dict[str, object]) -> None:
    refused("scopes", **claims)


@pytest.mark.parametrize(
    ("issuer", "subject", "user_id"),
    [
        ("sluice", "user-1", "sluice|user-1"),
        ("https://a.example", "x|y", "https://a.example|x|y"),
        ("https://a.example|x", "y", "https://a.example%7Cx|y"),
        ("https://a.example%7Cx", "y", "https://a.example%257Cx|y"),
    ],
)
def test_a_user_is_the_issuer_and_the_subject(issuer: str, subject: str, user_id: str) -> None:
    assert Claims(issuer, subject, "ten_1", "Ada", None).user_id == user_id


def test_the_id_of_a_user_is_never_longer_than_can_be_kept() -> None:
    long = [Claims("https://a.example", "x" * 254 + last, "ten_1", "Ada", None).user_id for last in "ab"]
    assert len(set(long)) == 2
    assert all(len(user_id) <= 255 and user_id.startswith("sha256|") for user_id in long)
