"""The proof about `sluice import`: killed together with the server or alone, and repeated, it sends each object once."""

import hashlib
import os
import random
import subprocess
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.api.responses import data
from tests.cli.forked import ForkedServer
from tests.recovery.sweep.files import unique
from tests.recovery.sweep.promises import PATIENCE, Promises, all_pages
from tests.service import ApiClient

OBJECTS = 3
"""How many new objects each import finds."""
MOST = 30
"""Above this number, what was imported is left to the other proofs."""
SECONDS = 0.6
"""Within this time the command is killed, each second time."""


@dataclass
class Imports:
    """A source to which objects are added: a bucket where there is S3, else a folder."""

    promises: Promises
    points: tuple[str, ...] = ()
    share: float = 0.15
    key: str = ""
    context: str = ""
    round_: int = 0
    sent: dict[str, str] = field(default_factory=dict)
    """The SHA-256 of each object of the source, by its name."""
    checked: set[str] = field(default_factory=set)
    busy: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, client: ApiClient) -> None:
        self.key = client.create_key("upload", "metadata").text
        self.context = client.create_context()

    def act(self, client: ApiClient, rng: random.Random) -> None:
        """Add objects to the source, and begin to import them."""
        if not self.busy.acquire(blocking=False):
            return
        try:
            for _ in range(OBJECTS):
                name, content = f"{rng.randbytes(8).hex()}.zzz", unique(rng)
                self._put(client, name, content)
                self.sent[name] = hashlib.sha256(content).hexdigest()
            command = self._start(client)
            try:
                command.wait(SECONDS * rng.random() if rng.random() < 0.5 else PATIENCE / 4)
            except subprocess.TimeoutExpired:
                command.kill()
                command.wait(PATIENCE)
        finally:
            self.busy.release()

    def check(self, client: ApiClient) -> None:
        """Repeat the command until it has done everything: each object is one file."""
        if not set(self.sent) - self.checked:
            return
        command = self._start(client)
        code = command.wait(PATIENCE)
        stored = list(all_pages(client, "/files", context=self.context))  # raises if the server has died
        assert code == 0, self._log(client).read_text(errors="replace")[-2000:]
        assert Counter(file["original_filename"] for file in stored) == Counter(list(self.sent))
        for file in stored:
            name = file["original_filename"]
            if name not in self.checked:
                link = data(client.get(f"/files/{file['file_id']}"))["download_url"]
                content = client.service.http.get(link).content
                assert hashlib.sha256(content).hexdigest() == self.sent[name], f"{name} is changed"
                self.checked.add(name)
        if len(self.sent) > MOST:
            for file in stored:
                self.promises.keep(file["file_id"], self.sent[file["original_filename"]], "file.stored")
            self.sent.clear()
            self.checked.clear()
            self.round_ += 1
            self.context = client.create_context()

    def end(self, client: ApiClient) -> None:
        self.check(client)

    def _start(self, client: ApiClient) -> ForkedServer:
        deployment, gateway = client.service.deployment, client.service.deployment.gateway
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        home = {f"XDG_{kind}_HOME": str(deployment.folder / kind.lower()) for kind in ("CONFIG", "STATE")}
        environment = inherited | home | {"SLUICE_URL": client.service.url, "SLUICE_API_KEY": self.key}
        source, options = str(self._folder(client)), []
        if gateway is not None:
            source, options = f"s3://{deployment.bucket}/{self._prefix}", ["--endpoint", gateway.endpoint]
            environment["SLUICE_IMPORT_ACCESS_KEY_ID"] = gateway.access_key
            environment["SLUICE_IMPORT_SECRET_ACCESS_KEY"] = gateway.secret_key
        state = str(deployment.folder / f"import-{self.round_}.jsonl")
        words = ["import", source, "--context", self.context, "--state", state, *options]
        return ForkedServer(environment, deployment.folder, self._log(client), words)

    def _put(self, client: ApiClient, name: str, content: bytes) -> None:
        gateway = client.service.deployment.gateway
        if gateway is not None:
            bucket = client.service.deployment.bucket
            gateway.client.put_object(Bucket=bucket, Key=f"{self._prefix}/{name}", Body=content)
            return
        folder = self._folder(client)
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)

    @property
    def _prefix(self) -> str:
        return f"imported-{self.round_}"

    def _folder(self, client: ApiClient) -> Path:
        return client.service.deployment.folder / self._prefix

    def _log(self, client: ApiClient) -> Path:
        return client.service.deployment.folder / "import.log"
