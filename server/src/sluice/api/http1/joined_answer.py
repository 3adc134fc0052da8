"""The transport that uvicorn writes one response to."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class JoinedResponse(asyncio.Transport):
    """Keeps the head of a response until the beginning of its body comes, so that both go out as one write.

    Each write to a socket is a system call that wakes the client.
    """

    def __init__(self, transport: asyncio.Transport, cycle: RequestResponseCycle) -> None:
        super().__init__()
        self._transport = transport
        self._cycle = cycle
        self._head: bytes | None = None
        self._has_head = False

    def write(self, data: Any) -> None:
        """Write, or keep the head."""
        if self._cycle.response_started and not self._has_head:  # before that comes only `100 Continue`
            self._has_head, self._head = True, data
        elif self._head is None:
            self._transport.write(data)
        else:
            head, self._head = self._head, None
            self._transport.write(b"".join((head, data)))

    def flush(self) -> None:
        """Write the head, if it still waits."""
        head, self._head = self._head, None
        if head is not None:
            self._transport.write(head)

    def close(self) -> None:
        """Close the connection once everything is written."""
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether the connection is closed or about to be."""
        return self._transport.is_closing()
