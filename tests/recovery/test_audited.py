"""kill -9 around every action that is audited: what is committed has its entry in the audit trail, what is not has none."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx
import pytest

from sluice.access import AUDITED_ROUTES
from tests.api.answers import data
from tests.api.places import Places
from tests.gate import API, Gate, Place, running_service, unguarded_service
from tests.length import WHOLE

SETTINGS: Final = {"BUCKET_PROBE": "false"}
STEP: Final = 1 if WHOLE else 4
NEW_BUCKET: Final = {"name": "new", "access_key_id": "A" * 16, "secret_access_key": "s", "default_bucket": "bucket"}
BODIES: Final[Mapping[str, Any]] = {
    "context.created": {"context_key": "made", "display_name": "x"},
    "context.changed": {"display_name": "changed"},
    "api_key.created": {"name": "made", "scopes": ["metadata"]},
    "api_key.changed": {"name": "changed"},
    "bucket.added": NEW_BUCKET,
    "bucket.changed": {"name": "changed"},
}
_ENDS: Final = ("file.deleted", "bucket.deleted", "api_key.revoked")
ACTIONS: Final = sorted(
    ((audited.action, method, path) for (method, path), audited in AUDITED_ROUTES.items()),
    key=lambda one: (one[0] in _ENDS, one[0]),  # what others work on is taken away last
)


@pytest.fixture
def place(places: Places, setup_name: str) -> Place:
    return places.fresh(setup_name)


@pytest.fixture
def owner(place: Place) -> tuple[Gate, Mapping[str, str]]:
    """A tenant that has one of everything, and the ids of these. Its server has ended."""
    with running_service(place, **SETTINGS) as service:
        gate = service.new_gate()
        ids = {"context_key": gate.context(), "tenant_id": gate.tenant_id, "api_key_id": gate.key("metadata").api_key_id}
        ids["file_id"] = gate.store(context=ids["context_key"])
        for name in ("first", "another_id", "config_id"):
            ids[name] = data(gate.post(gate.buckets, {**NEW_BUCKET, "name": name}), 201)["config_id"]
    return gate, ids


@pytest.mark.asvs("16.3.2")
@pytest.mark.timeout(60 + 20 * len(ACTIONS))
@pytest.mark.parametrize("point", ["deed.noted", "answer.made"])
def test_an_action_and_its_entry_are_committed_together_or_not_at_all(
    place: Place, owner: tuple[Gate, Mapping[str, str]], setup_name: str, point: str
) -> None:
    gate, ids = owner
    turn = ["deed.noted", "answer.made"].index(point) + 2 * (setup_name != "sqlite-local")
    before = _looked_at(place, gate, ids)
    for action, method, path in ACTIONS[0 if WHOLE else turn :: STEP]:
        # the default cannot be deleted
        where = path.replace("config_id", "another_id") if action == "bucket.made_default" else path
        with unguarded_service(place, FAILPOINT=point, **SETTINGS) as service:
            dying = Gate(service, gate.tenant_id, gate.authorization)
            with pytest.raises(httpx.TransportError):
                dying.ask(method, where.removeprefix(API).format_map(ids), json=BODIES.get(action))
            service.process.wait(10)
        after = _looked_at(place, gate, ids)
        noted = after["trail"][len(before["trail"]) :]
        if point == "deed.noted":
            assert after == before, action
        else:
            assert [entry["action"] for entry in noted] == [action]
            assert after["things"] != before["things"], action
        before = after


def _looked_at(place: Place, gate: Gate, ids: Mapping[str, str]) -> dict[str, Any]:
    """Answer all of the tenant's things and its audit trail, oldest entry first, as another server shows them."""
    with running_service(place, **SETTINGS) as service:
        ask: Callable[[str], Any] = lambda path: Gate(service, gate.tenant_id, gate.authorization).get(path).json().get("data")  # noqa: E731  (a name for one line)
        paths = ("/contexts", f"/contexts/{ids['context_key']}", "/files", f"/files/{ids['file_id']}/metadata", gate.buckets)
        keys = [{name: value for name, value in key.items() if name != "last_used_at"} for key in ask("/api-keys")]
        return {"things": [keys, *[ask(path) for path in paths]], "trail": list(reversed(ask("/audit?page_size=100")))}
