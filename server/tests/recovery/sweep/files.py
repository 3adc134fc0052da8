"""Proofs about files: each that was acknowledged is there until it is deleted, holds are kept, previews go with files."""

import hashlib
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import httpx
from sqlalchemy import select

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import contexts, files
from sluice.files.lifecycle import FileState
from tests.api import tus
from tests.api.responses import data, page
from tests.api.samples import picture
from tests.recovery.sweep.promises import PATIENCE, PREFIX, Busy, Promises, all_pages, patiently
from tests.service import ApiClient

SIZES = (*[3_000] * 6, 1_500_000, 6_000_000)
"""Kept in memory, spooled on disk, stored in parts."""
DELETES = 0.4
MOST_KEPT = 40
"""Above this number, files are always deleted: an audit asks the bucket for each of them."""
MOST_HELD = 12
EXPIRE_ALL = -1
"""Days after which a file expires at once, also one whose server's clock was an hour ahead of the database's."""
LURE = b"urgent invoice"
"""What the YARA rule of the sweep matches."""
DENIED = PREFIX + bytes(reversed(range(256)))
"""What the hash list of the sweep denies."""
REFUSED = {
    "rejected-blank.zzz": (bytes(500), "blank_document"),
    "rejected-by-rule.zzz": (PREFIX + LURE, "virus_detected"),
    "rejected-by-list.zzz": (DENIED, "denied_file"),
    "rejected-by-check.zzz": (PREFIX + bytes(range(256)), "rejected_by_check"),
}


def unique(rng: random.Random, size: int = 256) -> bytes:
    """Return the content of a file that no other has."""
    return PREFIX + rng.randbytes(8) + bytes(range(256)) * (size // 256)


@dataclass
class Files:
    """Uploads in one request and in parts, deletions, restorations, reviews and rejections."""

    promises: Promises
    context: str
    doubtful: str
    """The context whose files are all in quarantine."""
    points: tuple[str, ...] = ()
    share: float = 1
    point: str = ""
    """The failpoint at which the server dies next: clients begin with what reaches it."""
    checked: set[str] = field(default_factory=set)
    """Files that were downloaded since the last kill but one, or before."""
    resumable: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Resumable uploads that were not finished, by their names: path and bytes."""

    def begin(self, client: ApiClient) -> None:
        data(client.post("/hash-lists", {"entries": [{"digest": hashlib.sha256(DENIED).hexdigest()}]}), 201)

    def act(self, client: ApiClient, rng: random.Random) -> None:
        acts = [self._upload, self._upload_in_parts, self._delete, self._restore, self._review, self._be_refused]
        wanted = {"part.": 1, "judging.": 1, "incoming.": 1, "delete.": 2, "restore.": 3, "review.": 4}
        first = next((acts[number] for prefix, number in wanted.items() if self.point.startswith(prefix)), None)
        for act in sorted(rng.sample(acts, len(acts)), key=lambda act: act != first):
            act(client, rng)

    def check(self, client: ApiClient) -> None:
        for file_id, digest in sorted((self.promises.kept | self.promises.held).items()):
            if file_id not in self.checked:
                link = data(client.get(f"/files/{file_id}"))["download_url"]
                content = client.service.http.get(link).content
                assert hashlib.sha256(content).hexdigest() == digest, f"{file_id} is changed"
                self.checked.add(file_id)
        for file_id in self.promises.deleted:
            assert client.get(f"/files/{file_id}/metadata").status_code == 404, f"{file_id} is there again"
        self.promises.deleted.clear()
        names = {item["original_filename"] for item in page(client.get("/files", page_size=100))[0]}
        assert not names & set(REFUSED)

    def end(self, client: ApiClient) -> None:
        """Finish every resumable upload that a kill has cut: each becomes exactly one file; the quota is their sum."""
        unfinished = sorted(self.resumable)
        with ThreadPoolExecutor(8) as clients:  # each may wait for the end of a lease
            list(clients.map(partial(self._finish_parts, client), unfinished))
        for name in unfinished:
            stored = [
                item for item in page(client.get("/files", filename=name))[0] if item["original_filename"] == name
            ]
            assert len(stored) == 1, name
        self.checked.clear()
        self.check(client)
        stored = [*all_pages(client, "/files", context=self.context)]
        assert client.used_bytes(self.context) == sum(file["size_bytes"] for file in stored)

    def _be_refused(self, client: ApiClient, rng: random.Random) -> None:
        name = rng.choice(sorted(REFUSED))
        content, reason = REFUSED[name]
        refused = client.upload(name, content, context=self.context)
        assert refused.json()["errors"] == [reason], refused.text

    def _upload(self, client: ApiClient, rng: random.Random) -> None:
        content = unique(rng, max(SIZES) if self.point.startswith("parts.") else rng.choice(SIZES))
        file_id = client.store("a.zzz", content, context=self.context)
        self.promises.keep(file_id, hashlib.sha256(content).hexdigest(), "file.stored")

    def _upload_in_parts(self, client: ApiClient, rng: random.Random) -> None:
        name, content = f"{rng.randbytes(8).hex()}.zzz", unique(rng, 256 * 30)
        upload = tus.begin(client, len(content), context=self.context, filename=name)
        with self.promises.lock:
            self.resumable[name] = (upload.path, content)
        self._finish_parts(client, name)

    def _finish_parts(self, client: ApiClient, name: str) -> None:
        """Send what is missing of a resumable upload, and the last byte until there is a verdict."""
        path, content = self.resumable[name]
        upload, deadline, response = tus.Tus(client, path), time.monotonic() + PATIENCE, None
        while response is None or response.status_code != 200:
            assert time.monotonic() < deadline, response
            offset = upload.offset
            end = len(content) // 2 if offset < len(content) // 2 else len(content)
            try:
                response = upload.patch(content[offset:end], offset)
            except Busy:
                time.sleep(0.3)  # until the lease of an attempt that a kill has cut ends, so this polls
                continue
            assert response.status_code in {200, 204}, response.text
        with self.promises.lock:
            del self.resumable[name]
        file_id = response.json()["data"]["file_id"]
        self.promises.keep(file_id, hashlib.sha256(content).hexdigest(), "file.stored")

    def _delete(self, client: ApiClient, rng: random.Random) -> None:
        if len(self.promises.kept) <= MOST_KEPT and rng.random() >= DELETES:
            return
        for file_id, digest in self.promises.take(rng).items():
            if delete_unless_held(client, self.promises, file_id, digest):
                self.promises.delete(file_id, "file.deleted")

    def _restore(self, client: ApiClient, rng: random.Random) -> None:
        """Delete a file and restore it, which its purge may be faster than."""
        for file_id, digest in self.promises.take(rng).items():
            if not delete_unless_held(client, self.promises, file_id, digest):
                continue
            with self.promises.lock:
                self.promises.announced["file.deleted", file_id] += 1
            restored = client.post(f"/files/{file_id}/restore")
            if restored.status_code == 404:
                self.promises.delete(file_id)
            else:
                data(restored)
                self.promises.keep(file_id, digest, "file.restored")

    def _review(self, client: ApiClient, rng: random.Random) -> None:
        """Upload a file into quarantine, and release or refuse it."""
        content = unique(rng)
        file_id, word = client.store("a.zzz", content, context=self.doubtful), rng.choice(("release", "refuse"))
        with self.promises.lock:
            self.promises.announced["file.quarantined", file_id] += 1
        data(client.post(f"/quarantine/{file_id}/{word}", {"comment": "reviewed"}))
        if word == "release":
            self.promises.keep(file_id, hashlib.sha256(content).hexdigest(), "file.released")
        else:
            self.promises.delete(file_id, "file.refused")


@dataclass
class Retention:
    """Files whose retention is over are deleted, but for those under a legal hold."""

    promises: Promises
    context: str
    """The context whose files expire at once while its retention is tested."""
    with_holds: bool
    points: tuple[str, ...] = ("retention.",)
    share: float = 0
    held_context: str = ""
    """One of the same kind, which is held as a whole."""

    def begin(self, client: ApiClient) -> None:
        if not self.with_holds:
            return
        self.held_context = client.create_context()
        data(client.request("PUT", f"/contexts/{self.held_context}/hold", json={"reason": "Case 8"}))
        rng = random.Random("retention")
        for context in (self.context, self.held_context):
            content = unique(rng)
            file_id = patiently(partial(client.store, "held.zzz", content, context=context))
            data(client.request("PUT", f"/files/{file_id}/hold", json={"reason": "Case 7"}))
            self.promises.hold(file_id, hashlib.sha256(content).hexdigest(), "file.stored")
        content = unique(rng)
        file_id = patiently(partial(client.store, "held too.zzz", content, context=self.held_context))
        self.promises.hold(file_id, hashlib.sha256(content).hexdigest(), "file.stored")

    def act(self, client: ApiClient, _rng: random.Random) -> None:
        """Store a file whose retention is over at once, and have the worker look."""
        client.upload("old.zzz", PREFIX + bytes(range(256)), context=self.context)
        self._keep_for(client, EXPIRE_ALL)

    def check(self, client: ApiClient) -> None:
        """Let nothing expire before the next failpoint of this."""
        self._keep_for(client, None)

    def end(self, client: ApiClient) -> None:
        """Let everything expire that may, and wait until it has."""
        self._keep_for(client, EXPIRE_ALL)
        held = sorted(set(self.promises.held) & set(_listed(client, self.context)))
        deadline = time.monotonic() + PATIENCE
        while _listed(client, self.context) != held:
            assert time.monotonic() < deadline, (_listed(client, self.context), held)
            time.sleep(0.2)  # the worker is another process, so this polls
        self._keep_for(client, None)

    def _keep_for(self, client: ApiClient, days: int | None) -> None:
        # No days are less than the API takes: nothing else would be due in a test.
        statement = (
            contexts.update()
            .where(contexts.c.context_key.in_([self.context, self.held_context]))
            .values(retention_days=days, retention_due_at=datetime(2020, 1, 1, tzinfo=UTC))
        )

        async def write(database: Database) -> None:
            async with database.transaction(ALL_TENANTS) as connection:
                await connection.execute(statement)

        client.service.on_database(write)


@dataclass
class Holds:
    """Legal holds that are put on files and taken from them, and what is tried on files that are held."""

    promises: Promises
    points: tuple[str, ...] = ()
    share: float = 0.3
    own: dict[str, str] = field(default_factory=dict)
    """The files that this proof holds, and may let go."""

    def begin(self, client: ApiClient) -> None:
        pass

    def act(self, client: ApiClient, rng: random.Random) -> None:
        with self.promises.lock:
            everyone, own = sorted(self.promises.held), sorted(self.own)
        if len(own) < MOST_HELD:
            for file_id, digest in self.promises.take(rng).items():
                try:
                    data(client.request("PUT", f"/files/{file_id}/hold", json={"reason": "Case 7"}))
                except (httpx.TransportError, Busy):  # it is there, held or not
                    self.promises.keep(file_id, digest)
                    raise
                self.promises.hold(file_id, digest)
                self.own[file_id] = digest
        elif rng.random() < DELETES:
            file_id = rng.choice(own)
            with self.promises.lock:
                digest = self.own.pop(file_id, "")
                self.promises.held.pop(file_id, None)
            if digest:  # no other client was faster
                try:
                    data(client.delete(f"/files/{file_id}/hold"))
                finally:
                    self.promises.keep(file_id, digest)
            return
        if everyone and (refused := client.delete(f"/files/{rng.choice(everyone)}")).status_code != 409:
            assert refused.status_code == 200, refused.text
            raise AssertionError(f"a held file was deleted: {refused.request.url}")

    def check(self, client: ApiClient) -> None:
        """The proof of files downloads those that are held, too."""

    def end(self, client: ApiClient) -> None:
        stored = set(_listed(client))
        assert not set(self.promises.held) - stored, "files under a legal hold are lost"


@dataclass
class Previews:
    """Previews that are drawn of files which are deleted sooner or later: they go with their file."""

    promises: Promises
    context: str
    points: tuple[str, ...] = ("preview.",)
    share: float = 0.15

    def begin(self, client: ApiClient) -> None:
        pass

    def act(self, client: ApiClient, _rng: random.Random) -> None:
        content = picture()
        file_id = client.store("a.png", content, context=self.context)
        data(client.get(f"/files/{file_id}/preview"))
        self.promises.keep(file_id, hashlib.sha256(content).hexdigest(), "file.stored")

    def check(self, client: ApiClient) -> None:
        pass

    def end(self, client: ApiClient) -> None:
        """Assert that each file has its object, and each object or preview its file, once everything is purged."""
        deadline, states = time.monotonic() + PATIENCE, _states_by_key(client)
        while set(states) != (found := {key.partition(".preview-")[0] for key in client.object_keys()}):
            if all(states.get(key) == FileState.GONE for key in found.symmetric_difference(states)):
                return  # they were never stored, and their rows wait for another look at the bucket
            assert time.monotonic() < deadline, (sorted(set(states) - found), sorted(found - set(states)))
            time.sleep(0.2)  # the worker is another process, so this polls
            states = _states_by_key(client)


def delete_unless_held(client: ApiClient, promises: Promises, file_id: str, digest: str) -> bool:
    """Delete a file, and return whether that was allowed: the answer to the request that held it may be lost."""
    response = client.delete(f"/files/{file_id}")
    if response.status_code == 409:
        promises.hold(file_id, digest)
        return False
    data(response)
    return True


def _listed(client: ApiClient, context: str = "") -> list[str]:
    query = {"context": context} if context else {}
    return sorted(file["file_id"] for file in all_pages(client, "/files", **query))


def _states_by_key(client: ApiClient) -> dict[str, str]:
    """Return the state of each file by the key of its object."""

    async def read(database: Database) -> dict[str, str]:
        mine = select(files.c.object_key, files.c.state).where(files.c.tenant_id == client.tenant_id)
        async with database.reading(ALL_TENANTS) as connection:
            return {row.object_key: row.state for row in await connection.execute(mine)}

    return client.service.on_database(read)
