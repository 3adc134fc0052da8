"""A key that is unknown, revoked, disabled, expired or wrong is refused in the same words and, as far as can be measured, in the same time."""

import asyncio
import re
import statistics
import time
from collections.abc import Mapping

import pytest
from sqlalchemy import delete, update

from sluice.api_keys.service import ApiKeys
from sluice.db.database import Database
from sluice.db.schema import api_keys
from sluice.db.whose import EVERYBODY
from sluice.errors import Unauthenticated
from sluice.kit.clock import utc_now
from tests.deeds import deed_of
from tests.gate import Gate

_ROUNDS = 300
_MOST_APART = 1.5
"""How far the slowest cause's time may be above the fastest's: a second query would double it."""


async def _refused_keys(database: Database, tenant_id: str) -> Mapping[str, str]:
    """Answer a key for each cause of a refusal that only the database knows."""
    keys = ApiKeys(database)
    made = {
        cause: await keys.create(deed_of(tenant_id), cause, ["metadata"])
        for cause in ("unknown", "revoked", "disabled", "expired", "wrong")
    }
    changes: Mapping[str, Mapping[str, object]] = {
        "revoked": {"status": "revoked"},
        "disabled": {"status": "disabled"},
        "expired": {"expires_at": utc_now()},
        "wrong": {"secret_hash": bytes(32)},
    }
    async with database.transaction(EVERYBODY) as connection:
        for cause, values in changes.items():
            await connection.execute(update(api_keys).where(api_keys.c.api_key_id == made[cause].key.api_key_id).values(**values))
        await connection.execute(delete(api_keys).where(api_keys.c.api_key_id == made["unknown"].key.api_key_id))
    return {cause: issued.text for cause, issued in made.items()}


@pytest.fixture
def refused_keys(gate: Gate) -> Mapping[str, str]:
    return gate.service.on_database(lambda database: _refused_keys(database, gate.tenant_id))


@pytest.mark.asvs("6.3.8")
def test_every_cause_is_refused_byte_for_byte_alike(gate: Gate, refused_keys: Mapping[str, str]) -> None:
    answers = [gate.as_(text).get("/files") for text in (*refused_keys.values(), "sl_live_nonsense")]
    assert {answer.status_code for answer in answers} == {401}
    assert len({re.sub(rb'"timestamp":"[^"]*"', b"", answer.content) for answer in answers}) == 1
    assert len({tuple(name for name, _ in answer.headers.items()) for answer in answers}) == 1
    assert len({answer.headers["content-length"] for answer in answers}) == 1


async def _times(database: Database, texts: Mapping[str, str]) -> Mapping[str, float]:
    """Answer a twentieth's quantile in seconds for each: what a busy machine adds falls on the rest."""
    keys, taken = ApiKeys(database), {cause: list[float]() for cause in texts}
    for number in range(_ROUNDS):
        # In turn, beginning with another one each time: what the machine does beside falls on all alike.
        at = number % len(texts)
        for cause in (*list(texts)[at:], *list(texts)[:at]):
            began = time.perf_counter()
            with pytest.raises(Unauthenticated):
                await keys.authenticate(texts[cause])
            taken[cause].append(time.perf_counter() - began)
            await asyncio.sleep(0)
    return {cause: statistics.quantiles(times, n=20)[0] for cause, times in taken.items()}


@pytest.mark.asvs("6.3.8")
def test_no_cause_takes_longer_than_another(gate: Gate, refused_keys: Mapping[str, str]) -> None:
    """A text that is no key at all is refused without a query, and is here to show that a difference would be seen."""
    texts = {**refused_keys, "no key": "sl_live_nonsense"}
    times_taken = dict(gate.service.on_database(lambda database: _times(database, texts)))
    without_query = times_taken.pop("no key")
    assert max(times_taken.values()) < _MOST_APART * min(times_taken.values()), times_taken
    assert without_query * _MOST_APART < min(times_taken.values())
