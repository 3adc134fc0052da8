"""The contract of an object store and its optional abilities.

Keys are relative, `/`-separated, never begin or end with `/`, hold no empty, `.` or `..` segment, and are never reused.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Final, Literal, Protocol, runtime_checkable
from urllib.parse import SplitResult

from sluice.kit.health import EngineHealth
from sluice_inspect.sandbox.sealed import Sealed


class StoreError(Exception):
    """The store did not do what was asked, and may do so later. `str()` is one sentence without secrets.

    `part` names the store in an error response. `answer` is the HTTP status and the error code of the store's response,
    such as `403 AccessDenied`; empty if there was none.
    """

    part = "storage"
    answer = ""


class StoreUnavailable(StoreError):
    """The store does not respond, or refuses every request: the next request is likely to fail as well."""


class StoreFull(StoreError):
    """The store has no room left."""


class ObjectChanged(StoreError):
    """The object has another size than the one that was put: somebody else wrote to the bucket."""

    def __init__(self) -> None:
        super().__init__("The object has another size than the one that was stored.")


class EndpointNotAllowed(StoreError):
    """The operator does not allow the endpoint of the bucket, or not any more. No request was sent to it."""

    part = "storage (the operator does not allow the bucket's endpoint)"


# What a probe of a store does, in this order: see `common.probe_store`.
ProbeStep = Literal["lookup", "write", "read", "delete", "deleted"]


def ignore_step(_step: ProbeStep) -> None:
    """Ignore a step of a probe."""


class ObjectStore(Protocol):
    """Whole objects by key. Every method raises `StoreError` when the store cannot be used, and nothing else."""

    async def put(self, key: str, sealed: Sealed, *, content_type: str) -> None:
        """Store all bytes under `key`, durably and all or nothing: when this returns, they survive a crash."""
        ...

    def read(
        self, key: str, *, start: int = 0, length: int | None = None, expected_size: int | None = None
    ) -> AsyncIterator[bytes]:
        """Yield at most `length` bytes of the object from `start`, in chunks of at most 1 MiB.

        Iterating raises `KeyError` when there is no such object, and `ObjectChanged` when it has another size than
        `expected_size`.
        """
        ...

    async def size(self, key: str) -> int | None:
        """Return the object's size in bytes, or None when there is no such object."""
        ...

    async def delete(self, key: str) -> None:
        """Delete the object. A missing object is a no-op."""
        ...

    async def probe(self, begin: Callable[[ProbeStep], None] = ignore_step) -> None:
        """Put, read and delete one small object; raise `StoreError` with a sentence that an operator can act on.

        `begin` is called with each step before it is made.
        """
        ...

    async def health(self) -> EngineHealth:
        """Return the state of the store. Never raises."""
        ...

    async def aclose(self) -> None:
        """Release connections and threads. A second call is a no-op."""
        ...


_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits in seconds. `request_seconds` limits one HTTP request with its body (at most one part).

    A failed request is repeated up to `retries` times, but no new try begins `request_seconds` after the first; one
    call takes twice that at most.
    """

    connect_seconds: float = 3.0
    request_seconds: float = 30.0
    retries: int = 2


@dataclass(frozen=True, slots=True)
class Connection:
    """How requests to a bucket are made.

    Objects larger than `part_bytes` are sent in parts of that size. After three puts or deletions in a row that failed,
    the store is left alone for `rest_seconds`. `before` is awaited before each request of an operation and before a
    link is issued, and may refuse it by raising `StoreError`. `relay_url` is the proxy that every request goes through.
    """

    probe_folder: str
    timeouts: Timeouts = Timeouts()
    part_bytes: int = 8 * _MIB
    rest_seconds: float = 10.0
    before: Callable[[], Awaitable[None]] | None = None
    relay_url: str | None = None


@dataclass(frozen=True, slots=True)
class ProviderField:
    """A field of a provider as a form shows it; `name` is the one in the body of the API.

    A secret is never shown again. What `rotates` can be changed together with the secret.
    """

    name: str
    label: str
    hint: str = ""
    required: bool = True
    min_length: int = 1
    max_length: int = 500
    secret: bool = False
    rotates: bool = False

    @property
    def is_credential(self) -> bool:
        """Whether it can be changed after the bucket was added."""
        return self.secret or self.rotates


class FieldRefused(ValueError):
    """A field is none of this provider, or has not the form that it needs. `field` is `body` if it is about several."""

    def __init__(self, problem: str, field: str = "body") -> None:
        super().__init__(problem)
        self.field = field


class ProviderSettings(ABC):
    """Where a provider keeps a bucket, and who opens it: all but the bucket's name and its one secret.

    A subclass is a frozen dataclass of JSON values, by which it is also stored. `endpoint_url` is the origin that a
    tenant named, which the operator must allow; None for the provider's own.
    """

    __slots__ = ()

    provider: ClassVar[str]
    title: ClassVar[str]
    scheme: ClassVar[str]  # of a URL that names a bucket
    fields: ClassVar[Sequence[ProviderField]]
    endpoint_url: str | None

    @classmethod
    @abstractmethod
    def of_platform(cls, url: SplitResult, given: Mapping[str, str]) -> "tuple[ProviderSettings, str, str]":
        """Return the settings, the name and the secret of the operator's own bucket at `url`.

        `given` are the operator's settings: `region`, `endpoint_url`, `access_key_id`, `secret_access_key`, `secret`.
        Raise `FieldRefused`.
        """

    @abstractmethod
    def shown(self) -> Mapping[str, str]:
        """Return the fields that may be shown, by their names; identifiers of keys are masked."""

    @abstractmethod
    def rotated(self, sent: Mapping[str, str]) -> "tuple[ProviderSettings, str]":
        """Return these settings with other credentials, and their secret. Raise `FieldRefused`."""

    @abstractmethod
    def connect(self, bucket: str, secret: str, connection: Connection) -> ObjectStore:
        """Return a client of the bucket. Raise `StoreError` for one that cannot be addressed."""


@runtime_checkable
class SupportsSpeculativePut(Protocol):
    """A store that can receive the bytes of an object before it is known whether the object may exist."""

    def can_put_speculatively(self, size: int) -> bool:
        """Return whether the upload of an object of `size` bytes can start now."""
        ...

    async def put_speculatively(
        self, key: str, sealed: Sealed, *, content_type: str, allowed: "asyncio.Future[bool]"
    ) -> None:
        """Send the bytes, but create the object only once `allowed` is True.

        Raise `StoreError`, with nothing left behind, when it is False.
        """
        ...


@runtime_checkable
class KeepsFiles(ObjectStore, Protocol):
    """A store whose objects are files of this machine."""

    async def create_file(self, key: str) -> int:
        """Create an empty object and return a descriptor to write it, which the caller closes.

        What is written survives a crash of the process; a crash of the machine may lose it, unless it is put.
        """
        ...

    async def open_file(self, key: str, *, writable: bool = False) -> int:
        """Return a descriptor of the object's file, which the caller closes. Raise `KeyError` if there is none."""
        ...


@runtime_checkable
class DeletesMany(Protocol):
    """A store that deletes many objects with few requests."""

    async def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Delete the objects; return the keys that could not be deleted, each with the reason as one sentence.

        Missing objects are no failure. Raise `StoreError` when the store as a whole cannot be used; some objects may be
        deleted by then, and the call can be repeated.
        """
        ...


@runtime_checkable
class SweepsLeftovers(Protocol):
    """A store in which a crash can leave unfinished objects outside every key."""

    async def sweep(self, *, older_than_seconds: float) -> int:
        """Delete unfinished objects that were begun longer ago than that; return how many. Raise `StoreError`."""
        ...


@runtime_checkable
class AbortsStaleParts(Protocol):
    """A store that keeps, and bills, the parts of multipart uploads that were neither completed nor aborted."""

    async def abort_stale_parts(self, prefix: str, older_than: timedelta, is_ours: Callable[[str], bool]) -> int:
        """Abort uploads that began longer ago than that, under keys below `prefix` that `is_ours` accepts.

        Return how many. Raise `StoreError`.
        """
        ...


@dataclass(frozen=True, slots=True)
class ListedObject:
    """One object of a listing; `size` is in bytes. `version` is another one after each change, empty if unknown."""

    key: str
    size: int
    version: str = ""


@runtime_checkable
class ListsObjects(Protocol):
    """A store that lists its objects, for comparison with the database."""

    def list_objects(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[ListedObject]]:
        """Yield the objects below the folder `prefix` (empty: all) with keys after `after`, in batches.

        Keys are in the order of their UTF-8. Objects that are created or deleted meanwhile may be missing or included.
        Iterating raises `StoreError`.
        """
        ...

    async def is_ours(self, key: str) -> bool:
        """Return whether this service created the object; False for a missing one. Raise `StoreError`."""
        ...


@runtime_checkable
class MakesRemarks(Protocol):
    """A store whose probe finds what is no failure, and what an operator should know."""

    @property
    def remarks(self) -> Sequence[str]:
        """What the last probe found, as sentences."""
        ...


@runtime_checkable
class PresignsDownloads(Protocol):
    """A store that issues download links of its own. Links of other stores are signed and served by the service."""

    async def presign(self, key: str, *, expires_in: int, filename: str, content_type: str) -> str:
        """Return a URL that downloads the object as an attachment named `filename` for `expires_in` seconds."""
        ...
