"""The store of a measurement: an S3 stub that Sluice and the baseline share, or a folder for each."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.baseline_key import ACCESS_KEY, BUCKET, SECRET_KEY
from tests.servers import daemon, free_port, listens

_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Store:
    """A running stub, or empty for folders: `settings` for Sluice (without `SLUICE_`), `endpoint` for the baseline."""

    endpoint: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    pids: tuple[int, ...] = ()


@contextmanager
def running_store(folder: Path, kind: str, *, texts: int = 0) -> Iterator[Store]:
    """Run a store of the kind `s3` or `local` until the block ends, with that many `texts`; its log is in `folder`."""
    if kind == "local":
        yield Store()
        return
    port = free_port()
    command = [sys.executable, "-m", "bench.s3_stub", str(port), str(texts)]
    environment = dict(os.environ) | {"PYTHONPATH": str(_ROOT)}
    with daemon(command, folder / f"s3-{port}.log", ready=lambda: listens(port), environment=environment) as process:
        endpoint = f"http://127.0.0.1:{port}"
        settings = {
            "BUCKET": BUCKET,
            "ENDPOINT": endpoint,
            "ACCESS_KEY_ID": ACCESS_KEY,
            "SECRET_ACCESS_KEY": SECRET_KEY,
        }
        yield Store(endpoint, {f"STORAGE_{name}": value for name, value in settings.items()}, (process.pid,))
