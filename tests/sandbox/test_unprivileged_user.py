"""The same walls for an ordinary user as for root. Runs as root only, which can become one; else the other tests are that proof."""

import asyncio
import json
import os
import shutil
import sys

import pytest

from tests.engines.sandbox.conftest import ROOT

_AS_NOBODY = """
import asyncio, json, os, sys
from sluice.engines.sandbox.judge import Budget
from sluice.engines.sandbox.zygote import ZygoteSandbox
from sluice.kit.sealed import Sealed

async def attempt():
    budget = Budget(cpu_seconds=1)
    sandbox = ZygoteSandbox(level=sys.argv[2], budget=budget, jobs="tests.engines.sandbox.hostile_jobs", import_path=[sys.argv[1]])
    await sandbox.start()
    fd = os.memfd_create("x")
    results = {}
    for job in ("all actions", "null", "allocate", "spin", "flood", "truth"):
        result = await sandbox.run(job, Sealed(fd, 0, b""), filename="", tenant_id="t")
        results[job] = [type(result).__name__, getattr(result, "payload", None)]
    await sandbox.aclose()
    print(json.dumps({"uid": os.getuid(), "level": sandbox.level, "results": results}))

asyncio.run(attempt())
"""


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="only root can become another user")
@pytest.mark.parametrize("level", ["strict", "seccomp"])
async def test_an_ordinary_user_is_contained_and_limited_as_root_is(level: str) -> None:
    # the right to read is kept, since the interpreter may lie where only root can read; it opens no door in the child
    process = await asyncio.create_subprocess_exec(
        "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
        sys.executable, "-B", "-c", _AS_NOBODY, ROOT, level, cwd=ROOT, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _err = await process.communicate()
    said = json.loads(out)
    results = said["results"]
    assert (said["uid"], said["level"]) == (65534, level)
    assert all(results["all actions"][1].values())
    ended = {job: result[0] for job, result in results.items() if job != "all actions"}
    assert ended == {"null": "Died", "allocate": "Overran", "spin": "Overran", "flood": "Died", "truth": "Ran"}
