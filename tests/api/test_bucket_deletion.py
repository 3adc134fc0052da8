"""Which buckets may be deleted, and what the refusal says. What happens to their files is in `test_bucket_routing`."""

import pytest

from tests.api.answers import data, not_found, refused
from tests.gate import Gate


def _is_bound(gate: Gate, config_id: str, contexts: int) -> None:
    answer = gate.delete(f"{gate.buckets}/{config_id}")
    refused(
        answer,
        409,
        f"Cannot delete a bucket still bound to {contexts} context(s)",
        "Reassign contexts or set another default first",
    )
    data(gate.get(f"{gate.buckets}/{config_id}"))


def test_an_unbound_bucket_is_deleted(weir: Gate) -> None:
    weir.bucket()
    config_id = weir.bucket()["config_id"]
    assert data(weir.delete(f"{weir.buckets}/{config_id}")) == {"config_id": config_id, "deleted": True}
    not_found(weir.get(f"{weir.buckets}/{config_id}"))
    not_found(weir.delete(f"{weir.buckets}/{config_id}"))
    assert len(data(weir.get(weir.buckets))) == 1


def test_the_name_of_a_deleted_bucket_is_free(weir: Gate) -> None:
    weir.bucket()
    weir.delete(f"{weir.buckets}/{weir.bucket(name='again')['config_id']}")
    weir.bucket(name="again")


@pytest.mark.parametrize("contexts", [0, 1, 3])
def test_the_default_is_not_deleted_and_counts_the_contexts_that_resolve_to_it(weir: Gate, contexts: int) -> None:
    config_id = weir.bucket()["config_id"]
    for _ in range(contexts):
        weir.context()
    _is_bound(weir, config_id, contexts)


def test_a_bucket_that_contexts_are_bound_to_is_not_deleted(weir: Gate) -> None:
    weir.bucket()
    config_id = weir.bucket()["config_id"]
    weir.context()
    bound = [weir.context(storage_config_id=config_id) for _ in range(2)]
    _is_bound(weir, config_id, 2)
    weir.patch(f"/contexts/{bound[0]}", {"storage_config_id": ""})
    _is_bound(weir, config_id, 1)
    weir.patch(f"/contexts/{bound[1]}", {"storage_config_id": None})
    data(weir.delete(f"{weir.buckets}/{config_id}"))


def test_the_default_counts_those_bound_to_it_by_name_too(weir: Gate) -> None:
    config_id = weir.bucket()["config_id"]
    weir.context(storage_config_id=config_id)
    weir.context()
    _is_bound(weir, config_id, 2)


def test_an_inactive_context_binds_its_bucket_too(weir: Gate) -> None:
    weir.bucket()
    config_id = weir.bucket()["config_id"]
    weir.patch(f"/contexts/{weir.context(storage_config_id=config_id)}", {"status": "inactive"})
    _is_bound(weir, config_id, 1)
