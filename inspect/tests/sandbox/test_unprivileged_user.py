"""The confinement of a server that runs as an unprivileged user. Needs root; without root, the other tests prove it."""

import asyncio
import json
import os
import shutil
import sys

import pytest

from tests.rows import each_row
from tests.sandbox.conftest import ROOT

_AS_NOBODY = """
import asyncio, json, os, sys
from sluice_inspect.sandbox.protocol import JobLimits
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.sealed import Sealed

async def attempt():
    limits = JobLimits(cpu_seconds=1)
    jobs, root = "tests.sandbox.hostile_jobs", sys.argv[1]
    sandbox = ZygoteSandbox(level=sys.argv[2], limits=limits, jobs=jobs, import_path=[root])
    await sandbox.start()
    fd = os.memfd_create("x")
    results = {}
    for job in ("all actions", "null pointer", "allocate", "spin", "oversized frame", "describe file"):
        result = await sandbox.run(job, Sealed(fd, 0, b""), filename="", tenant_id="t")
        results[job] = [type(result).__name__, getattr(result, "payload", None)]
    await sandbox.aclose()
    print(json.dumps({"uid": os.getuid(), "level": sandbox.level, "results": results}))

asyncio.run(attempt())
"""


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="only root can become another user")
@each_row("level", ["strict", "seccomp"])
async def test_unprivileged_user_gets_same_confinement_as_root(level: str) -> None:
    # the right to read is kept, since only root may be able to read the interpreter; it does not help the child
    user = ["--reuid=65534", "--regid=65534", "--clear-groups"]
    caps = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    command = ["setpriv", *user, *caps, sys.executable, "-B", "-c", _AS_NOBODY, ROOT, level]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    out, _err = await process.communicate()
    output = json.loads(out)
    results = output["results"]
    assert (output["uid"], output["level"]) == (65534, level)
    assert all(results["all actions"][1].values())
    ended = {job: result[0] for job, result in results.items() if job != "all actions"}
    expected = {"allocate": "OverLimit", "spin": "OverLimit", "describe file": "Completed"}
    assert ended == expected | {"null pointer": "Crashed", "oversized frame": "Crashed"}
