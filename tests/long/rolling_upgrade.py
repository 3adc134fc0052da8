"""The code of the release before the last migration, taken from the history, serves on the schema of this one: while it is migrated, and started anew."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from sluice.db.migrate import newest, revision, upgrade
from tests.api.answers import check_edges, data, page
from tests.api.places import Places
from tests.api.tokens import LocalIssuer
from tests.gate import Place, Service, environment_of, module
from tests.load import hold, uploading
from tests.recovery.auditing import audited
from tests.scanning.waiting import until
from tests.servers import daemon, free_port, listens, run

ROOT = Path(__file__).parents[2]
STEPS = "src/sluice/db/migrations/versions"


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The sources of the commit before the newest migration came, checked out."""
    (step,) = ROOT.glob(f"{STEPS}/{newest()}_*.py")
    came = run(["git", "log", "--diff-filter=A", "--format=%H", "--", str(step)], cwd=ROOT).split()
    assert came, "this needs a clone with its history, and a newest migration that is committed"
    folder = tmp_path_factory.mktemp("before") / "tree"
    run(["git", "worktree", "add", "--detach", str(folder), f"{came[-1]}~1"], cwd=ROOT)
    yield folder / "src"
    run(["git", "worktree", "remove", "--force", str(folder)], cwd=ROOT)


@contextmanager
def _old(place: Place, sources: Path) -> Iterator[Service]:
    """Run a server by those sources; it must end well."""
    port = free_port()
    url, log = f"http://127.0.0.1:{port}", place.folder / f"old-{port}.log"
    environment = environment_of(place, port) | {"PYTHONPATH": str(sources)}
    with (
        httpx.Client(base_url=url, timeout=60, event_hooks={"response": [check_edges]}) as client,
        daemon(module("serve"), log, ready=lambda: listens(port), environment=environment) as process,
    ):
        service = Service(place, url, port, process, log, environment, client, LocalIssuer(place.data_dir))
        yield service
        service.stop()
        assert "Traceback" not in log.read_text(errors="replace"), log.read_text(errors="replace")[-4000:]


def _that_starts_on_later_schemas(sources: Path) -> Path:
    """Answer those sources, or this release's where they are older than that ability (decision 15)."""
    return sources if "def serves" in (sources / "sluice/db/migrate.py").read_text() else ROOT / "src"


def _owned(place: Place) -> Place:
    """Answer the place for a service that owns its tables, as the release before may."""
    settings = {name: value for name, value in place.settings.items() if name != "MIGRATION_DATABASE_URL"}
    return replace(place, settings=settings, database_url=place.owner_url or place.database_url)


@pytest.mark.parametrize("setup", ["sqlite-local", "postgres-s3"])
def test_old_servers_go_on_and_start_again_on_the_new_schema(places: Places, before: Path, setup: str) -> None:
    place = _owned(places.fresh(setup))
    with _old(place, before) as service:
        gate = service.new_gate().with_store()
        context = gate.context()
        with uploading(gate, context, clients=2) as load:
            service.on_database(upgrade)
            assert service.on_database(revision) == newest()
            held = len(load.kept)
            assert until(lambda: len(load.kept) >= held + 10, 60)
        assert (load.odd, load.broken) == ([], 0)
        hold(gate, load)
    gate.sql("UPDATE alembic_version SET version_num = '9999'")
    with _old(place, _that_starts_on_later_schemas(before)) as service:
        gate = replace(gate, service=service)
        file_id = gate.store(context=context)
        assert page(gate.get("/files"))[1]["total"] == len(load.kept) + 1
        data(gate.delete(f"/files/{file_id}"))
        hold(gate, load)
    gate.sql("UPDATE alembic_version SET version_num = :at", at=newest())
    found = audited(service)
    assert found.of(gate.tenant_id) == set(), found.complaint
