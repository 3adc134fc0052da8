"""The round of one small object that shows whether a store can be used. Which store, and when, is decided above."""

import contextlib
import hashlib
import os
import secrets
from typing import Final

from sluice.engines.storage.protocol import ObjectStore, StoreFault
from sluice.kit.sealed import Sealed

_BODY: Final = b"Sluice wrote this to see whether it can. It may be deleted.\n"


async def probed(store: ObjectStore, folder: str) -> None:
    """Put, read and delete one small object under a new key in `folder`; raises `StoreFault` with a sentence on what failed."""
    key = f"{folder}/{secrets.token_hex(16)}"
    if await store.size(key) is not None:
        raise StoreFault("The store says that it holds an object which nobody has put there.")
    try:
        found = await _round(store, key)
    except StoreFault:
        with contextlib.suppress(StoreFault):  # the first fault is the one to tell
            await store.delete(key)
        raise
    await store.delete(key)
    if found != _BODY:
        raise StoreFault("The store answered other bytes than were put there.")
    if await store.size(key) is not None:
        raise StoreFault("The store still holds an object that was just deleted.")


async def _round(store: ObjectStore, key: str) -> bytes:
    fd = os.memfd_create("probe", os.MFD_CLOEXEC)
    try:
        os.write(fd, _BODY)
        await store.put(key, Sealed(fd, len(_BODY), hashlib.sha256(_BODY).digest()), content_type="text/plain")
    finally:
        os.close(fd)
    try:
        return b"".join([chunk async for chunk in store.read(key)])
    except KeyError:
        raise StoreFault("The store does not find an object that was just put there.") from None
