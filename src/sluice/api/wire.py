"""The HTTP/1.1 protocol of the server: uvicorn's, but what it refuses by itself is an envelope too. Requests it can read go to the app."""

from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sluice.api.guards import SECURITY_HEADERS
from sluice.api.schemas.envelope import ErrorEnvelope
from sluice.errors import Malformed
from sluice.kit.ids import new_id

_UNREADABLE: Final = Malformed(errors=["The request is not HTTP/1.1 as RFC 9112 has it"])


class EnvelopeProtocol(HttpToolsProtocol):
    """Answers what is no HTTP request as every other refusal is answered, and closes: nobody knows where the next request begins."""

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  (uvicorn's signature; its sentence is not ours)
        """Write the answer to a request that could not be read."""
        body = ErrorEnvelope(message=_UNREADABLE.message, errors=list(_UNREADABLE.errors)).model_dump_json().encode()
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
            "Sluice-Error-Code": _UNREADABLE.code,
            "Request-Id": new_id("req"),
            **SECURITY_HEADERS,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(f"HTTP/1.1 400 Bad Request\r\n{lines}\r\n".encode() + body)
        self.transport.close()
