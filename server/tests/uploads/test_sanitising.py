"""Sanitising without a worker or without room, in one process with the rest of an upload."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sluice.contexts.sanitising import Sanitise
from sluice.errors import ServiceUnavailable, SpoolBusy
from sluice.uploads import sanitising
from sluice.uploads.names import read_name
from sluice.uploads.sanitising import sanitise_file
from sluice.uploads.spool import Spool, SpoolRoom, held
from sluice.uploads.values import ReceivedFile
from sluice_inspect.sandbox import NoWorker
from sluice_inspect.sandbox.sanitising import Sanitised
from sluice_inspect.sandbox.sealed import Sealed
from tests.uploads.test_external_checks import Gate, gate

__all__ = ["gate"]

LARGE = 5 * 1_048_576
CLEAN = Sanitise(remove=["metadata"])
NO_SANDBOX: Any = None


async def test_upload_gets_503_and_stores_nothing_while_no_file_can_be_sanitised(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = await gate.context(sanitise=CLEAN)
    sandbox: Any = gate.made.engines.sandbox
    run = sandbox.run

    async def run_all_but_sanitising(job: str, *args: Any, **more: Any) -> object:
        return NoWorker("none is free") if job.startswith("sanitise") else await run(job, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(sandbox, "run", run_all_but_sanitising)
        with pytest.raises(ServiceUnavailable) as fault:
            await gate.store(context)
    assert fault.value.part == "file checker"
    contexts = gate.made.services.contexts
    assert (await contexts.get(gate.tenant_id, context)).storage_used_bytes == 0
    assert not [path for path in (gate.data_dir / "objects").rglob("*") if path.is_file()]
    stored = await gate.store(context)
    assert (await contexts.get(gate.tenant_id, context)).storage_used_bytes == stored.size_bytes


async def test_sanitised_file_takes_room_that_is_given_back_and_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fd = os.memfd_create("test")
    os.write(fd, bytes(LARGE))

    @asynccontextmanager
    async def sanitise(*_args: Any, **_more: Any) -> AsyncIterator[Sanitised]:
        yield Sanitised(fd, LARGE, ("gps",))

    monkeypatch.setattr(sanitising, "sanitise", sanitise)
    sent = ReceivedFile(read_name("a.jpg"), Sealed(fd, LARGE, bytes(32)), {})
    room, before = SpoolRoom(LARGE, 60), held()

    async def sanitised() -> sanitising.SpooledFile:
        _fact, spooled = await sanitise_file(
            sent,
            CLEAN,
            sandbox=NO_SANDBOX,
            tenant_id="a",
            make_spool=lambda: Spool(0, tmp_path),
            room=room,
        )
        assert spooled is not None
        return spooled

    first = await sanitised()
    assert (first.file.sealed.size, held()[1] - before[1]) == (LARGE, LARGE)
    with pytest.raises(SpoolBusy):
        await sanitised()
    first.close()
    (await sanitised()).close()
    assert held() == before
    os.close(fd)
