"""A temporary c-icap whose antivirus service asks a clamd."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.required import require
from tests.servers import daemon, free_port

_MODULES = "/usr/lib/x86_64-linux-gnu/c_icap"
_CONFIGURATION = """\
PidFile {folder}/c-icap.pid
CommandsSocket {folder}/c-icap.ctl
Port 127.0.0.1:{port}
StartServers 1
MaxServers 2
ThreadsPerChild 16
MinSpareThreads 4
MaxSpareThreads 16
KeepAliveTimeout 60
TmpDir {folder}
ModulesDir {modules}
ServicesDir {modules}
TemplateDir /usr/share/c_icap/templates/
LoadMagicFile /etc/c-icap/c-icap.magic
ServerLog {folder}/server.log
AccessLog {folder}/access.log
Service echo srv_echo.so
Service antivirus_module virus_scan.so
ServiceAlias avscan virus_scan?allow204=on&sizelimit=off&mode=simple
ServiceAlias limited virus_scan?allow204=on&mode=simple
virus_scan.ScanFileTypes TEXT DATA EXECUTABLE ARCHIVE GRAPHICS STREAM DOCUMENT UNKNOWN
virus_scan.MaxObjectSize 2M
Module common clamd_mod.so
clamd_mod.ClamdHost 127.0.0.1
clamd_mod.ClamdPort {clamd_port}
"""


@dataclass(frozen=True)
class CIcap:
    """A running server. `avscan` scans everything, `limited` only up to 2 MB, and `echo` nothing."""

    port: int
    pid: int

    def address(self, service: str = "avscan") -> str:
        return f"icap://127.0.0.1:{self.port}/{service}"


@contextmanager
def running_c_icap(folder: Path, *, clamd_port: int, port: int | None = None) -> Iterator[CIcap]:
    """Run c-icap in `folder` until the block ends. Skips the test when it is not installed."""
    require("c-icap", "c-icap", apt="c-icap libc-icap-mod-virus-scan")
    folder.mkdir(parents=True, exist_ok=True)
    own = port or free_port()
    values = {"folder": folder, "port": own, "modules": _MODULES, "clamd_port": clamd_port}
    (folder / "c-icap.conf").write_text(_CONFIGURATION.format(**values))
    command = ["c-icap", "-N", "-f", str(folder / "c-icap.conf")]
    with daemon(command, folder / "c-icap.log", ready=lambda: _is_ready(own)) as process:
        yield CIcap(own, process.pid)


def _is_ready(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(b"OPTIONS icap://127.0.0.1/avscan ICAP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            return connection.recv(64).startswith(b"ICAP/1.0 200")
    except OSError:
        return False
