"""Which buckets may be deleted, and the errors otherwise. What happens to their files is in `test_bucket_routing`."""

import pytest

from tests.api.responses import assert_error, assert_not_found, data
from tests.rows import each_row
from tests.service import ApiClient

pytestmark = pytest.mark.engine


def _assert_bound(client: ApiClient, config_id: str, contexts: int) -> None:
    response = client.delete(f"{client.buckets}/{config_id}")
    message = f"Cannot delete a bucket still bound to {contexts} context(s)"
    assert_error(response, 409, message, "Reassign contexts or set another default first")
    data(client.get(f"{client.buckets}/{config_id}"))


def test_unbound_bucket_is_deleted_and_its_name_can_be_reused(client_on_s3: ApiClient) -> None:
    client_on_s3.add_bucket()
    config_id = client_on_s3.add_bucket(name="again")["config_id"]
    path = f"{client_on_s3.buckets}/{config_id}"
    assert data(client_on_s3.delete(path)) == {"config_id": config_id, "deleted": True}
    assert_not_found(client_on_s3.get(path))
    assert_not_found(client_on_s3.delete(path))
    assert len(data(client_on_s3.get(client_on_s3.buckets))) == 1
    client_on_s3.add_bucket(name="again")


@each_row("contexts", [0, 1, 3])
def test_default_bucket_is_not_deleted_and_counts_its_contexts(client_on_s3: ApiClient, contexts: int) -> None:
    client = client_on_s3.other_tenant_client()
    config_id = client.add_bucket()["config_id"]
    for _ in range(contexts):
        client.create_context()
    _assert_bound(client, config_id, contexts)


def test_bucket_bound_to_contexts_is_not_deleted(client_on_s3: ApiClient) -> None:
    default = client_on_s3.add_bucket()["config_id"]
    config_id = client_on_s3.add_bucket()["config_id"]
    client_on_s3.create_context()
    client_on_s3.create_context(storage_config_id=default)
    _assert_bound(client_on_s3, default, 2)  # those without a bucket of their own, and those with this one
    bound = [client_on_s3.create_context(storage_config_id=config_id) for _ in range(2)]
    _assert_bound(client_on_s3, config_id, 2)
    client_on_s3.patch(f"/contexts/{bound[0]}", {"storage_config_id": ""})
    client_on_s3.patch(f"/contexts/{bound[1]}", {"status": "inactive"})
    _assert_bound(client_on_s3, config_id, 1)
    client_on_s3.patch(f"/contexts/{bound[1]}", {"storage_config_id": None})
    data(client_on_s3.delete(f"{client_on_s3.buckets}/{config_id}"))
