"""Refusals of an unknown, revoked, disabled, expired or wrong key have the same bytes and take the same time."""

import asyncio
import re
import statistics
import time
from collections.abc import Mapping

import pytest
from sqlalchemy import delete, update

from sluice.api_keys.service import ApiKeys
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import api_keys
from sluice.errors import Unauthenticated
from sluice.kit.clock import utc_now
from tests.api.responses import without_time
from tests.operator_action import operator_action
from tests.service import ApiClient

_ROUNDS = 300
_MAX_RATIO = 1.5
"""Maximum ratio of the slowest cause's time to the fastest's: a second query would double it."""


async def _refused_keys(database: Database, tenant_id: str) -> Mapping[str, str]:
    keys = ApiKeys(database)
    made = {
        cause: await keys.create(operator_action(tenant_id), cause, ["metadata"])
        for cause in ("unknown", "revoked", "disabled", "expired", "wrong")
    }
    changes: Mapping[str, Mapping[str, object]] = {
        "revoked": {"status": "revoked"},
        "disabled": {"status": "disabled"},
        "expired": {"expires_at": utc_now()},
        "wrong": {"secret_hash": bytes(32)},
    }
    async with database.transaction(ALL_TENANTS) as connection:
        for cause, values in changes.items():
            is_it = api_keys.c.api_key_id == made[cause].key.api_key_id
            await connection.execute(update(api_keys).where(is_it).values(**values))
        await connection.execute(delete(api_keys).where(api_keys.c.api_key_id == made["unknown"].key.api_key_id))
    return {cause: issued.text for cause, issued in made.items()}


@pytest.mark.asvs("6.3.8")
def test_every_cause_of_refusal_gets_the_same_bytes_and_takes_the_same_time(client: ApiClient) -> None:
    """A text that is not a key is refused without a query: it shows that a difference would be detected."""
    refused_keys = client.service.on_database(lambda database: _refused_keys(database, client.tenant_id))
    """A text that is not a key is refused without a query: it shows that a difference would be detected."""
    others = (None, "wrong", "sl_live_nonsense", client.token(exp=1))
    responses = [client.with_credential(text).get("/files") for text in (*refused_keys.values(), *others)]
    assert len({repr(without_time(response)) for response in responses}) == 1
    assert {response.status_code for response in responses} == {401}
    assert len({re.sub(rb'"timestamp":"[^"]*"', b"", response.content) for response in responses}) == 1
    assert len({tuple(name for name, _ in response.headers.items()) for response in responses}) == 1
    assert len({response.headers["content-length"] for response in responses}) == 1
    texts = {**refused_keys, "no key": "sl_live_nonsense"}
    times_taken = dict(client.service.on_database(lambda database: _measure_times(database, texts)))
    without_query = times_taken.pop("no key")
    assert max(times_taken.values()) < _MAX_RATIO * min(times_taken.values()), times_taken
    assert without_query * _MAX_RATIO < min(times_taken.values())


async def _measure_times(database: Database, texts: Mapping[str, str]) -> Mapping[str, float]:
    """Return the 5 % quantile in seconds for each key: delays of a busy machine fall into the rest."""
    keys, taken = ApiKeys(database), {cause: list[float]() for cause in texts}
    for number in range(_ROUNDS):
        # each round begins with another cause, so that delays of the machine affect all causes alike
        at = number % len(texts)
        for cause in (*list(texts)[at:], *list(texts)[:at]):
            began = time.perf_counter()
            with pytest.raises(Unauthenticated):
                await keys.authenticate(texts[cause])
            taken[cause].append(time.perf_counter() - began)
            await asyncio.sleep(0)
    return {cause: statistics.quantiles(times, n=20)[0] for cause, times in taken.items()}
