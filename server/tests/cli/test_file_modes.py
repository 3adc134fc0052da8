"""Which users of the machine can read what Sluice writes: its own user only, from the first byte on."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from stat import S_IMODE

import pytest

from sluice.db import sqlite
from sluice.db.database import Database
from sluice.db.rls import NO_TENANT
from sluice_client.cli.app import run
from tests.cli.commands import Sluice, sluice_in
from tests.observe.metrics_page import until

OTHERS = 0o077
_OF_CONNECTIONS = {"sluice.db-wal", "sluice.db-shm"}


@pytest.fixture(autouse=True)
def generous_umask() -> Iterator[None]:
    """Run with the umask that lets others read and write everything."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def sluice(tmp_path: Path) -> Sluice:
    made = sluice_in(tmp_path / "place")
    made("init", "--json")
    return made


def readable_by_others(folder: Path) -> list[str]:
    return [str(path) for path in (folder, *folder.rglob("*")) if path.lstat().st_mode & OTHERS]


@pytest.mark.asvs("13.3.2", "14.2.4")
def test_everything_in_the_data_folder_is_for_its_owner(sluice: Sluice) -> None:
    sluice.data_dir.chmod(0o755)  # as an older release left it
    with sluice.running():
        # The last two are there while the server has a connection.
        until(lambda: {path.name for path in sluice.data_dir.iterdir()}, {"sluice.db", *_OF_CONNECTIONS}.issubset)
        assert readable_by_others(sluice.data_dir) == []


@pytest.mark.asvs("14.2.4")
def test_backup_and_what_is_restored_from_it_are_for_their_owner(sluice: Sluice, tmp_path: Path) -> None:
    saved, wide = tmp_path / "mounted" / "backup", tmp_path / "wide"
    assert sluice("backup", saved).code == 0
    assert readable_by_others(saved.parent) == []
    wide.mkdir(mode=0o755)
    assert sluice("backup", wide).code == 0
    assert S_IMODE((wide / "sluice.db").stat().st_mode) == 0o600
    shutil.rmtree(sluice.data_dir)
    assert sluice("restore", saved).code == 0
    assert readable_by_others(sluice.data_dir) == []


def test_command_leaves_the_umask_of_its_process_as_it_was() -> None:
    assert run(["--version"]) == 0
    assert os.umask(0) == 0


def test_new_database_is_for_its_owner_before_sqlite_opens_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    connect = sqlite3.connect

    def watch(path: object, *arguments: object, **options: object) -> sqlite3.Connection:
        target = Path(str(path).removeprefix("file:").partition("?")[0])
        modes.append(S_IMODE(target.stat().st_mode))
        return connect(path, *arguments, **options)  # type: ignore[call-overload,no-any-return]  # passed on as it came

    source = tmp_path / "source.db"
    with closing(sqlite3.connect(source)) as made, made:
        made.execute("CREATE TABLE t (x)")
    made.close()
    source.chmod(0o600)
    monkeypatch.setattr("sqlite3.connect", watch)
    sqlite.take_snapshot(source, tmp_path / "copy.db")
    assert modes == [0o600, 0o600]


async def test_database_of_an_older_release_is_narrowed_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "sluice.db"
    for name in ("sluice.db", "sluice.db-wal", "sluice.db-shm"):
        (tmp_path / name).touch(mode=0o644)
    database = Database(f"sqlite:///{path}")
    async with database.reading(NO_TENANT):
        assert readable_by_others(tmp_path) == []
    await database.aclose()


def test_folder_that_holds_other_things_is_not_narrowed_and_doctor_says_so(sluice: Sluice) -> None:
    (sluice.data_dir / "of-somebody-else.txt").touch(mode=0o600)
    sluice.data_dir.chmod(0o755)
    storage = next(one for one in sluice("doctor", "--json").json["engines"] if one["kind"] == "database")
    advice = f"others can enter the folder {sluice.data_dir}: run chmod 700 on it"
    assert (storage["state"], storage["detail"]) == ("degraded", advice)
    assert S_IMODE(sluice.data_dir.stat().st_mode) == 0o755
