"""Compare an upload by tus in chunks of 8 MiB with the same upload by form, on SQLite and the local store.

PYTHONPATH=inspect:server python scripts/bench_resumable.py [MEGABYTES] [ROUNDS]

Prints the median seconds of both, their ratio, and by how much the server's memory grew at most.
"""

import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.api import forms, tus
from tests.service import ApiClient, Deployment, Service, running_service

_CHUNK = 8 * 1_048_576
_SETTINGS = {"SCANNER": "builtin", "PURGE_AFTER_DAYS": "0"}  # memory and disk of a round serve the next one


def by_form(client: ApiClient, chunks: Sequence[bytes], context: str) -> httpx.Response:
    """Upload by one form."""
    before, after = forms.encode([forms.field("context", context), forms.file("a.bin", b"|")]).split(b"|")

    def body() -> Iterator[bytes]:  # in large pieces, so that the client costs as much as that of the other way
        yield before
        yield from chunks
        yield after

    length = str(len(before) + sum(map(len, chunks)) + len(after))
    headers = {"Content-Type": forms.content_type(), "Content-Length": length}
    return client.request("POST", "/files/upload", content=body(), headers=headers)


def by_tus(client: ApiClient, chunks: Sequence[bytes], context: str) -> httpx.Response:
    """Upload in chunks, and return the response to the last one."""
    offset, upload = 0, tus.begin(client, sum(map(len, chunks)), context=context, filename="a.bin")
    for chunk in chunks:
        response = upload.patch(chunk, offset)
        offset += len(chunk)
    return response


def main(words: list[str]) -> None:
    """Measure in turns, so that both see the same machine."""
    size = int(words[0] if words else 500) * 1_048_576
    rounds = int(words[1] if len(words) > 1 else 3)
    with tempfile.TemporaryDirectory() as folder:
        deployment = Deployment("bench", Path(folder), f"sqlite:///{folder}/data/sluice.db", _SETTINGS)
        with running_service(deployment) as service:
            client = service.new_client()
            context = client.create_context(max_file_size_mb=500)
            # Made before, since only one of the two would wait for it.
            chunks = [os.urandom(min(_CHUNK, size - offset)) for offset in range(0, size, _CHUNK)]
            seconds: dict[str, list[float]] = {"form": [], "tus": []}
            growth = dict.fromkeys(seconds, 0)
            for send in (by_form, by_tus):
                response = send(client, chunks, context).raise_for_status()
                client.delete(f"/files/{response.json()['data']['file_id']}")
            for _ in range(rounds):
                for name, send in (("form", by_form), ("tus", by_tus)):
                    with _watched(service) as grown:
                        began = time.perf_counter()
                        response = send(client, chunks, context)
                        seconds[name].append(time.perf_counter() - began)
                    response.raise_for_status()
                    growth[name] = max(growth[name], grown[0])
                    client.delete(f"/files/{response.json()['data']['file_id']}")
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    for name, median in medians.items():
        every = ", ".join(f"{each:.2f}" for each in seconds[name])
        print(f"{name}: {median:.2f} s ({every}), memory grew by {growth[name] / 1_048_576:.0f} MB")
    print(f"ratio: {medians['tus'] / medians['form']:.2f}")


@contextmanager
def _watched(service: Service) -> Iterator[list[int]]:
    """Yield a list whose only number is by how many bytes the server's own memory grew at most, at the end."""
    before, grown, over = _memory(service), [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            grown[0] = max(grown[0], _memory(service) - before)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield grown
    finally:
        over.set()
        watching.join()


def _memory(service: Service) -> int:
    lines = Path(f"/proc/{service.process.pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


if __name__ == "__main__":
    main(sys.argv[1:])
