"""A response whose content is kept once for all requests."""

from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from sluice.api.http1.connection_table import PIECE_BYTES


class SharedResponse(Response):
    """A response whose content is kept once for all requests: strangers may ask for it, and need not read it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  (as in Starlette)
        """Send the content in pieces, without a copy."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        content = memoryview(self.body)
        for start in range(0, len(content), PIECE_BYTES):
            end = start + PIECE_BYTES
            body = {"type": "http.response.body", "body": content[start:end], "more_body": end < len(content)}
            await send(body)
