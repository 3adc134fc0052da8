"""The time in which `sluice import` takes in many small objects, killed in the middle and started again."""

import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.baseline_key import ACCESS_KEY, BUCKET, SECRET_KEY
from bench.cpu import cpu_seconds
from bench.sluice import Sluice, running_sluice
from bench.stores import running_store
from tests.servers.postgres import running_postgres

_POLL_SECONDS = 0.05


def measure(folder: Path, *, rows: int, at_once: int) -> dict[str, Any]:
    """Return the seconds of both runs, and how many files there are at the end."""
    with (
        running_store(folder, "s3", texts=rows) as source,
        running_store(folder, "s3") as store,
        running_postgres(folder / "postgres") as postgres,
    ):
        url = postgres.createdb().replace("+asyncpg", "")
        with running_sluice(folder / "data", url, **store.settings) as sluice:
            sluice.context("taken")
            state = folder / "state.jsonl"
            words = ["--endpoint", source.endpoint, "--state", str(state), "--at-once", str(at_once)]
            began, client_before = time.perf_counter(), _client_seconds()
            server_before = cpu_seconds((sluice.pid,))
            process = _start(sluice, words)
            while process.poll() is None and _lines(state) < rows // 2:
                time.sleep(_POLL_SECONDS)
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed, noted = time.perf_counter(), _lines(state)
            ended_with = _start(sluice, words).wait()
            ended, client_seconds = time.perf_counter(), _client_seconds() - client_before
            server_seconds = cpu_seconds((sluice.pid,)) - server_before
            stored = int(sluice.request("GET", "/files?page=1&page_size=1")["pagination"]["total"])
    figures = {
        "objects": rows,
        "seconds": ended - began,
        "a_second": rows / (ended - began),
        "client_cpu_ms": client_seconds * 1000 / rows,
        "server_cpu_ms": server_seconds * 1000 / rows,
        "killed_after": noted,
        "killed_after_s": killed - began,
        "exit": ended_with,
        "files": stored,
    }
    print(figures)
    return figures


def _start(sluice: Sluice, words: list[str]) -> "subprocess.Popen[bytes]":
    environment = dict(sluice.environment) | {
        "SLUICE_URL": f"http://127.0.0.1:{sluice.port}",
        "SLUICE_API_KEY": sluice.key,
        "SLUICE_IMPORT_ACCESS_KEY_ID": ACCESS_KEY,
        "SLUICE_IMPORT_SECRET_ACCESS_KEY": SECRET_KEY,
    }
    source = f"s3://{BUCKET}/texts"
    command = [sys.executable, "-m", "sluice.cli", "import", source, "--context", "taken", *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def _client_seconds() -> float:
    """Return the CPU seconds of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _lines(state: Path) -> int:
    """Return how many objects are noted as imported; the first line says what is imported."""
    return max(0, state.read_bytes().count(b"\n") - 1) if state.exists() else 0
