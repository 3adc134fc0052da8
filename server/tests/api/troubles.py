"""A service whose scanner is unavailable, behind a proxy that cuts connections and loses the response with the verdict."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.api.responses import data, page
from tests.deployments import Deployments
from tests.recovery.sweep.promises import PATIENCE
from tests.servers import free_port
from tests.servers.clamd import Clamd, running_clamd
from tests.servers.faults import FaultProxy, fault_proxy
from tests.servers.threads import in_a_thread
from tests.service import ApiClient, running_service

SIZE = 5_000_000
CONTENT = b"\x07\x1b" + bytes(range(256)) * (SIZE // 256)
"""A file of no known format."""


@dataclass(frozen=True)
class Troubles:
    """`url` is that of the proxy, which clients use; `client` calls the service itself."""

    client: ApiClient
    url: str
    proxy: FaultProxy
    folder: Path

    def scanner(self) -> AbstractContextManager[Clamd]:
        """Run the scanner again until the block ends, once two attempts to judge the upload have failed."""
        deadline = time.monotonic() + PATIENCE
        while [one["outcome"] for one in self.client.decisions()].count("undecided") < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return running_clamd(self.folder)

    def assert_stored_once(self) -> None:
        """Assert that everything went wrong that should, and that the file is stored once, as it was sent."""
        assert (self.proxy.cuts, self.proxy.lost) == ([], [])
        (item,) = page(self.client.get("/files"))[0]
        kept = data(self.client.get(f"/files/{item['file_id']}/metadata"))
        assert kept["checksum"] == f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
        outcomes = [one["outcome"] for one in self.client.decisions()]
        assert outcomes == ["undecided"] * (len(outcomes) - 1) + ["accepted"]


@contextmanager
def troubled_service(deployments: Deployments, folder: Path) -> Iterator[Troubles]:
    """Run it until the block ends. Connections are cut each time that another tenth of the file was sent."""
    with ExitStack() as stack:
        port = free_port()
        with running_clamd(folder) as clamd:
            settings = {"SCANNER": "clamd", "CLAMD": clamd.address, "PUBLIC_URL": f"http://127.0.0.1:{port}"}
            deployment = replace(deployments.fresh("sqlite-local"), settings=settings)
            service = stack.enter_context(running_service(deployment))
        proxy = stack.enter_context(in_a_thread(fault_proxy(service.url, port=port)))
        proxy.cuts += [tenth * SIZE // 10 for tenth in range(1, 10)]
        proxy.lost += [b"sluice-file-id: "]
        yield Troubles(service.new_client(), f"http://127.0.0.1:{port}", proxy, folder)
