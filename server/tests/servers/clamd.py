"""A temporary clamd for tests with a tiny signature database: the EICAR test virus and Debian's ClamAV test file."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.required import require
from tests.servers import daemon, free_port

# A signature that matches at any offset of any file; in hex, so that this file is not a test virus itself.
_EICAR_HEX = (
    "58354f2150254041505b345c505a58353428505e2937434329377d24"
    "45494341522d5354414e444152442d414e544956495255532d544553542d46494c452124482b482a"
)
_DATABASE = {
    "eicar.ndb": f"Eicar-Test-Signature:0:*:{_EICAR_HEX}\n",
    "testfiles.hdb": "aa15bcf478d165efd2065190eb473bcb:544:ClamAV-Test-File\n",
}
_OPTIONS = {
    "Foreground": "yes",
    "LogTime": "yes",
    "LocalSocketMode": "660",
    "FixStaleSocket": "yes",
    "TCPAddr": "127.0.0.1",
    "MaxThreads": "8",
    "MaxQueue": "64",
    "MaxConnectionQueueLength": "64",
    "ReadTimeout": "120",
    "CommandReadTimeout": "30",
    "StreamMaxLength": "32M",
    "MaxFileSize": "32M",
    "MaxScanSize": "1200M",
    "MaxScanTime": "60000",
    "MaxRecursion": "16",
    "MaxFiles": "10000",
    "AlertExceedsMax": "yes",
    "AlertEncrypted": "yes",
    "SelfCheck": "3600",
    "ExitOnOOM": "yes",
}

LARGEST = {"StreamMaxLength": "600M", "MaxFileSize": "600M"}
"""Options for the largest files. Each service then probes how much is scanned, which takes clamd seconds."""


@dataclass(frozen=True)
class Clamd:
    """A running daemon: its addresses have the form of the setting `SLUICE_CLAMD`."""

    socket: Path
    port: int
    pid: int

    @property
    def address(self) -> str:
        return f"unix:{self.socket}"

    @property
    def tcp_address(self) -> str:
        return f"tcp:127.0.0.1:{self.port}"


@contextmanager
def running_clamd(
    folder: Path,
    options: Mapping[str, str] | None = None,
    *,
    port: int | None = None,
    signatures: Mapping[str, str] | None = None,
    base: Mapping[str, str] = _OPTIONS,
) -> Iterator[Clamd]:
    """Run a daemon in `folder` until the block ends; 0.8 s to start. Skips the test when clamd is not installed.

    `options` override those of `base`, for example `{"StreamMaxLength": "1M"}` or `LARGEST`; `signatures` are further
    files of the database.
    """
    require("ClamAV", "clamd", apt="clamav-daemon")
    for part in ("db", "tmp"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for name, lines in {**_DATABASE, **(signatures or {})}.items():
        (folder / "db" / name).write_text(lines)
    socket_path, tcp_port = folder / "clamd.sock", port or free_port()
    places = {
        "DatabaseDirectory": folder / "db",
        "TemporaryDirectory": folder / "tmp",
        "LocalSocket": socket_path,
        "TCPSocket": tcp_port,
    }
    settings = (f"{name} {value}\n" for name, value in {**base, **places, **(options or {})}.items())
    (folder / "clamd.conf").write_text("".join(settings))
    command = ["clamd", "-c", str(folder / "clamd.conf")]
    with daemon(command, folder / "clamd.log", ready=lambda: _is_ready(socket_path)) as process:
        yield Clamd(socket_path, tcp_port, process.pid)


def _is_ready(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(2)
        try:
            connection.connect(str(path))
            connection.sendall(b"zPING\0")
            return connection.recv(16) == b"PONG\0"
        except OSError:
            return False
