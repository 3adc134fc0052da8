"""kill -9 of the worker between the response of a receiver and its note: the event is sent again, with the same id."""

from datetime import UTC, datetime

from tests.api.responses import data
from tests.deployments import Deployments
from tests.events.receiver import running_receiver
from tests.service import ApiClient, running_service, unchecked_service

SETTINGS = {"WEBHOOK_HOSTS": "127.0.0.1"}


def test_an_event_whose_delivery_was_not_noted_is_sent_again(deployments: Deployments) -> None:
    deployment = deployments.fresh("sqlite-local")
    with running_receiver() as receiver:
        with running_service(deployment, **SETTINGS) as service:
            client = service.new_client()
            body = {"url": receiver.url, "events": ["endpoint.test"]}
            endpoint_id = data(client.post("/webhook-endpoints", body), 201)["endpoint_id"]
        with unchecked_service(deployment, FAILPOINT="webhook.sent", **SETTINGS) as service:
            dying = ApiClient(service, client.tenant_id, client.authorization)
            data(dying.post(f"/webhook-endpoints/{endpoint_id}/test"))
            receiver.wait_for(1)
            assert service.process.wait(20) == -9
        with running_service(deployment, **SETTINGS) as service:
            restarted = ApiClient(service, client.tenant_id, client.authorization)
            past = datetime(2020, 1, 1, tzinfo=UTC)  # the lease of the killed worker ends after 30 seconds
            restarted.execute_sql("UPDATE webhook_endpoints SET lease_until = :past", past=str(past)[:19] + ".000000")
            first, second = receiver.wait_for(2)
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        assert first.body == second.body
