"""Previews of stored files: links to them, what is kept beside a file and goes with it, and files without one."""

import struct
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.api.responses import assert_error, assert_not_found, data, page
from tests.api.samples import TEXT, picture, zip_of
from tests.deployments import Deployments
from tests.events.receiver import wait_until
from tests.rows import each_row
from tests.service import ApiClient, running_service, unchecked_service


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.mark.engine
def test_preview_is_made_once_kept_beside_the_file_and_purged_with_it(
    deployments: Deployments, setup_name: str
) -> None:
    with running_service(deployments.fresh(setup_name), PURGE_AFTER_DAYS="0", WORKER_SECONDS="0.1") as service:
        client = service.new_client().with_store()
        file_id = client.store("a.png", picture(), context=client.create_context())
        (key,) = client.object_keys()
        links = [data(client.get(f"/files/{file_id}/preview", size=size)) for size in ("200", "1200", "200")]
        assert [link["size"] for link in links] == [200, 1200, 200]
        assert client.object_keys() == {key, f"{key}.preview-200.png", f"{key}.preview-1200.png"}
        shown = [service.http.get(link["preview_url"]) for link in links]
        assert {response.headers["content-type"] for response in shown} == {"image/png"}
        assert shown[0].headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert max(size_of(shown[0].content)) <= 200
        client.overwrite_object(f"{key}.preview-200.png", b"kept")
        assert service.http.get(links[0]["preview_url"]).content == b"kept"
        assert service.http.get(links[0]["preview_url"].replace("size=200", "size=1200")).status_code == 403
        data(client.delete(f"/files/{file_id}"))
        assert service.http.get(links[0]["preview_url"]).status_code == 404
        wait_until(lambda: not client.object_keys())


def test_requests_for_the_same_preview_wait_for_the_first_that_draws_it(deployments: Deployments) -> None:
    with running_service(deployments.fresh("sqlite-local")) as service:
        client = service.new_client()
        file_id = client.store("a.png", picture(), context=client.create_context())
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda _: client.get(f"/files/{file_id}/preview"), range(6)))
        assert {answer.status_code for answer in answers} == {200}
        assert len(client.object_keys()) == 2
        assert "preview_not_kept" not in service.log.read_text()


@each_row("point", ["preview.drawn", "preview.kept", "purge.removed"])
def test_killed_server_leaves_a_file_whose_preview_is_made_again_and_purged_with_it(
    deployments: Deployments, point: str
) -> None:
    deployment, worker = deployments.fresh("sqlite-local"), {"PURGE_AFTER_DAYS": "0", "WORKER_SECONDS": "0.1"}
    with unchecked_service(deployment, FAILPOINT=point, **worker) as service:
        client = service.new_client()
        file_id = client.store("a.png", picture(), context=client.create_context())
        if point.startswith("purge"):
            data(client.get(f"/files/{file_id}/preview"))
            data(client.delete(f"/files/{file_id}"))
            wait_until(lambda: service.process.poll() is not None)
        else:
            with pytest.raises(httpx.TransportError):
                client.get(f"/files/{file_id}/preview")
    with running_service(deployment, **worker) as service:
        client = ApiClient(service, client.tenant_id, client.authorization)
        if not point.startswith("purge"):
            link = data(client.get(f"/files/{file_id}/preview"))["preview_url"]
            assert max(size_of(service.http.get(link).content)) <= 200
            data(client.delete(f"/files/{file_id}"))
        wait_until(lambda: not client.object_keys())


def test_file_in_quarantine_is_shown_to_reviewers_alone_and_that_is_in_the_audit_log(client: ApiClient) -> None:
    context = client.create_context(policies={"filename_pattern": {"mode": "quarantine", "pattern": "good.*"}})
    file_id = data(client.upload("doubtful.png", picture(), context=context), 201)["file_id"]
    assert_not_found(client.get(f"/files/{file_id}/preview"))
    reviewer = client.with_credential(client.create_key("review"))
    response = reviewer.get(f"/quarantine/{file_id}/preview", size="1200")
    assert (response.status_code, response.headers["content-type"]) == (200, "image/png")
    assert max(size_of(response.content)) <= 1200
    audited = page(client.get("/audit", action="file.quarantine_previewed"))[0]
    assert [(one["target"], one["outcome"]) for one in audited] == [(file_id, "done")]
    data(reviewer.post(f"/quarantine/{file_id}/release", {"comment": "harmless"}))
    assert_not_found(reviewer.get(f"/quarantine/{file_id}/preview"))


def test_archive_and_text_have_previews_and_an_unknown_format_none(client: ApiClient) -> None:
    context = client.create_context()
    for name, content in (("a.txt", TEXT), ("a.zip", zip_of(("inner.txt", TEXT)))):
        file_id = client.store(name, content, context=context)
        link = data(client.get(f"/files/{file_id}/preview", size="200"))
        assert max(size_of(client.service.http.get(link["preview_url"]).content)) == 200
    file_id = client.store("a.zzz", b"\x07\x1b" + bytes(range(256)), context=context)
    response = client.get(f"/files/{file_id}/preview")
    assert_error(response, 404, "This file has no preview", "The format has no preview")
