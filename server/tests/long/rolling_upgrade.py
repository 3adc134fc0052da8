"""The release before the last migration, taken from the git history, serves on the schema of this release."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from sluice.db.migrate import newest, revision, upgrade
from tests.api.responses import check_response, data, page
from tests.api.tokens import LocalIssuer
from tests.deployments import Deployments
from tests.load import assert_downloadable, uploading_clients
from tests.recovery.audit_command import run_audit
from tests.repository import ROOT, import_path
from tests.scanning.waiting import until
from tests.servers import daemon, free_port, listens, run
from tests.service import Deployment, Service, cli_command, environment_of

STEPS = "server/src/sluice/db/migrations/versions"


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A checkout of the commit before the newest migration step."""
    assert newest() != "0001", (
        "there is no migration step yet; server/tests/db/test_contraction.py runs steps of its own"
    )
    (step,) = ROOT.glob(f"{STEPS}/{newest()}_*.py")
    commits = run(["git", "log", "--diff-filter=A", "--format=%H", "--", str(step)], cwd=ROOT).split()
    assert commits, "this needs a clone with its history, and a newest step that is committed"
    folder = tmp_path_factory.mktemp("before") / "tree"
    run(["git", "worktree", "add", "--detach", str(folder), f"{commits[-1]}~1"], cwd=ROOT)
    yield folder
    run(["git", "worktree", "remove", "--force", str(folder)], cwd=ROOT)


@contextmanager
def _old_server(deployment: Deployment, checkout: Path) -> Iterator[Service]:
    """Run a server of that checkout; it must end without a traceback."""
    port = free_port()
    url, log = f"http://127.0.0.1:{port}", deployment.folder / f"old-{port}.log"
    environment = environment_of(deployment, port) | {"PYTHONPATH": import_path(checkout)}
    with (
        httpx.Client(base_url=url, timeout=60, event_hooks={"response": [check_response]}) as client,
        daemon(cli_command("serve"), log, ready=lambda: listens(port), environment=environment) as process,
    ):
        service = Service(deployment, url, port, process, log, environment, client, LocalIssuer(deployment.data_dir))
        yield service
        service.stop()
        assert "Traceback" not in log.read_text(errors="replace"), log.read_text(errors="replace")[-4000:]


def _checkout_for_later_schemas(checkout: Path) -> Path:
    """Return that checkout, or this one if that cannot start on a later schema (decision 15)."""
    return checkout if "def serves" in (checkout / "server/src/sluice/db/migrate.py").read_text() else ROOT


def _with_owned_tables(deployment: Deployment) -> Deployment:
    """Return the place for a service that owns its tables, like the previous release."""
    settings = {name: value for name, value in deployment.settings.items() if name != "MIGRATION_DATABASE_URL"}
    return replace(deployment, settings=settings, database_url=deployment.owner_url or deployment.database_url)


@pytest.mark.parametrize("setup", ["sqlite-local", "postgres-s3"])
def test_the_last_release_keeps_serving_on_the_new_schema(deployments: Deployments, before: Path, setup: str) -> None:
    deployment = _with_owned_tables(deployments.fresh(setup))
    with _old_server(deployment, before) as service:
        client = service.new_client().with_store()
        context = client.create_context()
        with uploading_clients(client, context, clients=2) as load:
            service.on_database(upgrade)
            assert service.on_database(revision) == newest()
            held = len(load.stored)
            assert until(lambda: len(load.stored) >= held + 10, 60)
        assert (load.unexpected, load.broken_connections) == ([], 0)
        assert_downloadable(client, load)
    client.execute_sql("UPDATE alembic_version SET version_num = '9999'")
    with _old_server(deployment, _checkout_for_later_schemas(before)) as service:
        client = replace(client, service=service)
        file_id = client.store(context=context)
        assert page(client.get("/files"))[1]["total"] == len(load.stored) + 1
        data(client.delete(f"/files/{file_id}"))
        assert_downloadable(client, load)
    client.execute_sql("UPDATE alembic_version SET version_num = :at", at=newest())
    found = run_audit(service)
    assert found.of(client.tenant_id) == set(), found.complaint
