"""The object store of each bucket: one living client per bucket and credential.

Knows no HTTP, no SQL and no secret for longer than a call.
"""

from collections.abc import Callable
from typing import Protocol

from sluice.buckets.bucket import Bucket
from sluice.kit.cipher import CannotOpen
from sluice.kit.secret_files import SecretFileRefused
from sluice.storage import ObjectStore, ProviderSettings, StoreUnavailable


class Closable(Protocol):
    """A resource that must be closed."""

    async def aclose(self) -> None:
        """Let go of it. A second call is a no-op."""


Connect = Callable[[Bucket], ObjectStore]
"""Makes the client of a bucket; opens the sealed secret on the way."""


class Stores:
    """The stores of all buckets, and the platform's own for tenants without one."""

    def __init__(
        self, platform: ObjectStore, connect: Connect, *, most: int = 1000, relay: Closable | None = None
    ) -> None:
        """`relay` is the proxy of the clients, closed after the last of them."""
        self.platform = platform
        self._connect = connect
        self._most = most
        self._relay = relay
        self._living: dict[tuple[str, ProviderSettings, str], ObjectStore] = {}

    def of(self, bucket: Bucket | None) -> ObjectStore:
        """Return the store of `bucket`, or the platform's for None.

        A rotated credential gets a client of its own at once.

        Raise `StoreUnavailable` if the bucket's secret cannot be opened here.
        """
        if bucket is None:
            return self.platform
        identity = (bucket.config_id, bucket.settings, bucket.secret_sealed)
        store = self._living.pop(identity, None) or self.connect(bucket)
        self._living[identity] = store
        if len(self._living) > self._most:
            # The one unused for longest. It is only let go of, not closed: a transfer may still be under way on it.
            del self._living[next(iter(self._living))]
        return store

    def connect(self, bucket: Bucket) -> ObjectStore:
        """Return a client that is not kept, to try a bucket out.

        Raise `StoreUnavailable` if its secret cannot be opened here.
        """
        try:
            return self._connect(bucket)
        except (CannotOpen, SecretFileRefused) as fault:
            # As on a host whose keyring lacks the newest key: this bucket alone is affected, and only until the keyring
            # is copied here.
            raise StoreUnavailable(
                "The secret of the bucket cannot be opened with the keyring of this host."
            ) from fault

    async def aclose(self) -> None:
        """Close every client and the platform's store."""
        living, self._living = self._living, {}
        for store in (*living.values(), self.platform):
            await store.aclose()
        if self._relay is not None:
            await self._relay.aclose()
