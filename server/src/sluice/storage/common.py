"""Code that object stores share: the rule for keys, the circuit breaker, and the probe."""

import contextlib
import hashlib
import os
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from sluice.storage.protocol import ObjectStore, ProbeStep, StoreError, StoreUnavailable
from sluice_inspect.sandbox.sealed import Sealed

KEY_BYTES: Final = 1024  # S3's own limit, in UTF-8: docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
_NOT_TEXT: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_NOT_A_NAME: Final = frozenset({"", ".", ".."})
_PROBE_BODY: Final = b"Sluice wrote this to see whether it can. It may be deleted.\n"


def validate_key(key: str) -> str:
    """Return `key`; raise `StoreError` if it could leave its store, or if stores would read it differently."""
    if not 0 < len(key.encode(errors="replace")) <= KEY_BYTES:
        raise StoreError(f"A key has 1 to {KEY_BYTES} bytes.")
    if not _NOT_A_NAME.isdisjoint(key.split("/")):
        raise StoreError("A key is relative and has no empty, `.` or `..` part.")
    if _NOT_TEXT.search(key):
        raise StoreError("A key has no control characters.")
    return key


class CircuitBreaker:
    """Refuse requests to a store that keeps failing, so that callers do not wait for it.

    After `failures` in a row, requests are refused at once for `rest_seconds`; then one is let through as a trial. Each
    client of a bucket has its own breaker: a dead bucket slows no other, and rotated credentials start with a closed
    one.
    """

    def __init__(
        self, *, failures: int = 3, rest_seconds: float = 10.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = failures
        self._rest_seconds = rest_seconds
        self._monotonic = monotonic
        self._failures = 0
        self._refuses_until = 0.0

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Run one request.

        Raise `StoreUnavailable` at once while the store rests; one from the block counts as a failure.
        """
        is_trial = self._failures >= self._most
        if is_trial:
            now = self._monotonic()
            if now < self._refuses_until:
                raise StoreUnavailable(
                    f"The store failed {self._failures} times in a row and is left alone for a moment."
                )
            # Others are refused while the trial runs, but only as long as a rest: the trial may be a put of minutes.
            self._refuses_until = now + self._rest_seconds
        try:
            yield
        except StoreUnavailable:
            self._failures += 1
            self._refuses_until = self._monotonic() + self._rest_seconds
            raise
        except BaseException:
            if is_trial:  # it ended without a verdict on the store, so the next request is the trial
                self._refuses_until = self._monotonic()
            raise
        else:
            self._failures = 0


async def probe_store(
    store: ObjectStore,
    folder: str,
    begin: Callable[[ProbeStep], None],
    inspect: Callable[[str], Awaitable[None]] | None = None,
) -> None:
    """Put, read and delete one small object under a new key in `folder`; raise `StoreError` with what failed.

    `inspect` is awaited with the key while the object is there, and may raise it as well.
    """
    key = f"{folder}/{secrets.token_hex(16)}"
    begin("lookup")
    if await store.size(key) is not None:
        raise StoreError("The store reports an object that was never put there.")
    try:
        begin("write")
        await _put(store, key)
        begin("read")
        await _read(store, key)
        if inspect is not None:
            await inspect(key)
    except StoreError:
        with contextlib.suppress(StoreError):  # the first error is the one to report
            await store.delete(key)
        raise
    begin("delete")
    await store.delete(key)
    begin("deleted")
    if await store.size(key) is not None:
        raise StoreError("The store still holds an object that was just deleted.")


async def _put(store: ObjectStore, key: str) -> None:
    fd = os.memfd_create("probe", os.MFD_CLOEXEC)
    try:
        os.write(fd, _PROBE_BODY)
        sealed = Sealed(fd, len(_PROBE_BODY), hashlib.sha256(_PROBE_BODY).digest())
        await store.put(key, sealed, content_type="text/plain")
    finally:
        os.close(fd)


async def _read(store: ObjectStore, key: str) -> None:
    try:
        found = b"".join([chunk async for chunk in store.read(key)])
    except KeyError:
        raise StoreError("The store does not find an object that was just put there.") from None
    if found != _PROBE_BODY:
        raise StoreError("The store returned other bytes than were put there.")
