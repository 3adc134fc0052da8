"""`VerifierSet`: each token is verified by the verifier of its own issuer."""

import dataclasses

import pytest

from sluice.identity.local import LocalVerifier
from sluice.identity.protocol import InvalidToken
from sluice.identity.verifier_set import VerifierSet
from sluice.kit.health import EngineState
from tests.identity.tokens import RULES, at_now, ed_key, token
from tests.rows import each_row

OTHER = dataclasses.replace(RULES, issuer="https://other.example")


@pytest.fixture
def verifiers() -> VerifierSet:
    """Two issuers: the key `one` signs for the first, `two` for the other."""
    keys = {"one": RULES, "two": OTHER}
    return VerifierSet([LocalVerifier(ed_key(name).public_key(), of, clock=at_now) for name, of in keys.items()])


@pytest.mark.asvs("6.8.1")
async def test_issuer_cannot_sign_for_another_issuer(verifiers: VerifierSet) -> None:
    for key, own, other in (("one", RULES.issuer, OTHER.issuer), ("two", OTHER.issuer, RULES.issuer)):
        assert (await verifiers.verify(token(key=key, iss=own))).issuer == own
        with pytest.raises(InvalidToken, match="signature"):
            await verifiers.verify(token(key=key, iss=other))


@each_row("issuer", ["https://unknown.example", RULES.issuer + "/", "", None, 1, [RULES.issuer], {"iss": RULES.issuer}])
async def test_unknown_issuer_is_refused(verifiers: VerifierSet, issuer: object) -> None:
    with pytest.raises(InvalidToken, match="not a trusted one"):
        await verifiers.verify(token(iss=issuer))


async def test_every_token_is_refused_without_issuers_and_every_other_text(verifiers: VerifierSet) -> None:
    with pytest.raises(InvalidToken, match="not a trusted one"):
        await VerifierSet([]).verify(token())
    with pytest.raises(InvalidToken):
        await verifiers.verify("sl_live_no.token.at_all")


def test_duplicate_issuer_is_refused() -> None:
    local = LocalVerifier(ed_key().public_key(), RULES)
    with pytest.raises(ValueError, match="exactly one verifier"):
        VerifierSet([local, LocalVerifier(ed_key("two").public_key(), RULES)])


async def test_health_reports_every_issuer(verifiers: VerifierSet) -> None:
    assert verifiers.issuers == {RULES.issuer, OTHER.issuer}
    assert [health.state for health in await verifiers.health()] == [EngineState.UP, EngineState.UP]
    await verifiers.aclose()
