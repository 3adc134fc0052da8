"""Google's side of the JSON API before the emulator: who may do what, resumable uploads, signed links and error messages.

It follows the documentation, not the real service, which no test reaches.
"""

import asyncio
import base64
import hashlib
import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import httpx
import jwt
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.servers.fake_gcs import FakeGcs

_OBJECT = re.compile(r"/storage/v1/b/([^/?]+)/o/([^/?]+)")
_UPLOADS = re.compile(r"/upload/storage/v1/b/([^/?]+)/o")


@dataclass(frozen=True)
class Seen:
    """A request that was received."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    target: str


@dataclass(frozen=True)
class Answer:
    """A response. A `status` of 0 closes the connection without one."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Answers(Protocol):
    """What `listening` asks. A test may replace its method."""

    async def answer(self, seen: Seen) -> Answer:
        """Return the response to a request."""
        ...


def refusal(status: int, reason: str, message: str) -> Answer:
    """Return an error as the JSON API states it."""
    error = {"code": status, "message": message, "errors": [{"domain": "global", "reason": reason, "message": message}]}
    return Answer(status, json.dumps({"error": error}).encode(), {"Content-Type": "application/json"})


def lacking(permission: str) -> Answer:
    """Return the error for a service account without a permission."""
    text = (
        f"sluice@example.iam.gserviceaccount.com does not have {permission} access to the Google Cloud Storage object."
    )
    return refusal(403, "forbidden", f"{text} Permission '{permission}' denied on resource (or it may not exist).")


@dataclass
class _Session:
    bucket: str
    name: str
    described: dict[str, Any]
    received: bytearray = field(default_factory=bytearray)


@dataclass
class Google:
    """A running server. `interfere` may answer a request before it is judged; None leaves it to the server."""

    gcs: FakeGcs
    key: str
    bucket: str
    url: str = ""
    token_url: str = ""
    seen: list[Seen] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    sessions: dict[str, _Session] = field(default_factory=dict)
    interfere: Callable[[Seen], Answer | None] = lambda _: None
    is_public: bool = False
    refused_grant: str = ""
    """The description of the error `invalid_grant` that is answered instead of a token."""
    kept: list[int] = field(default_factory=list)
    """How many bytes are kept of the next parts, as a server may that is short of memory."""
    progress: asyncio.Event = field(default_factory=asyncio.Event)

    def keys(self) -> list[str]:
        """Return the names of the objects in the bucket."""
        return self.gcs.keys(self.bucket)

    async def reached(self, size: int) -> None:
        """Wait until a resumable upload has that many bytes."""
        while not any(len(session.received) >= size for session in self.sessions.values()):
            await self.progress.wait()
            self.progress.clear()

    async def answer(self, seen: Seen) -> Answer:
        """Return the response to a request."""
        self.seen.append(seen)
        if (early := self.interfere(seen)) is not None:
            return early
        if seen.path == "/token":
            return self._token(seen)
        if "X-Goog-Signature" in seen.query:
            return await self._linked(seen)
        is_read = seen.method == "GET" and _OBJECT.fullmatch(seen.path) is not None
        if seen.headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens and not (
            self.is_public and is_read
        ):
            return refusal(401, "authError", "Invalid Credentials")
        if seen.path.endswith("/iam"):
            return lacking("storage.buckets.getIamPolicy")
        uploads = _UPLOADS.fullmatch(seen.path)
        if uploads is not None and seen.query.get("uploadType") == "resumable":
            return await self._resumable(seen, uploads[1])
        if uploads is not None and b"md5Hash" in seen.body and not _has_its_md5(seen):
            return refusal(400, "invalid", "Provided MD5 hash does not match the calculated MD5 hash.")
        return await self._forward(seen)

    def _token(self, seen: Seen) -> Answer:
        form = dict(parse_qsl(seen.body.decode()))
        if self.refused_grant:
            error = {"error": "invalid_grant", "error_description": self.refused_grant}
            return Answer(400, json.dumps(error).encode())
        values = json.loads(self.key)
        public = load_pem_private_key(values["private_key"].encode(), None).public_key()
        claims = jwt.decode(form["assertion"], public, ["RS256"], audience=self.token_url)  # type: ignore[arg-type]
        assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        assert jwt.get_unverified_header(form["assertion"])["kid"] == values["private_key_id"]
        assert claims["iss"] == values["client_email"]
        assert claims["scope"] == "https://www.googleapis.com/auth/devstorage.read_write"
        assert abs(claims["iat"] - time.time()) < 60
        assert claims["exp"] - claims["iat"] == 3600
        token = f"ya29.{secrets.token_hex(16)}"
        self.tokens.add(token)
        answer = {"access_token": token, "expires_in": 3599, "token_type": "Bearer"}
        return Answer(200, json.dumps(answer).encode())

    async def _resumable(self, seen: Seen, bucket: str) -> Answer:
        if seen.method == "POST":
            name = seen.query["name"]
            if seen.query.get("ifGenerationMatch") == "0" and name in self.gcs.keys(bucket):
                return refusal(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
            upload_id = secrets.token_hex(16)
            self.sessions[upload_id] = _Session(bucket, name, json.loads(seen.body))
            location = f"{self.url}{seen.path}?uploadType=resumable&upload_id={upload_id}"
            return Answer(200, headers={"Location": location})
        session = self.sessions.get(seen.query["upload_id"])
        if session is None:
            return refusal(404, "notFound", "Not Found")
        if seen.method == "DELETE":
            del self.sessions[seen.query["upload_id"]]
            return Answer(499)
        span, _, total = seen.headers["content-range"].removeprefix("bytes ").partition("/")
        if span != "*":
            start = int(span.partition("-")[0])
            assert start <= len(session.received), "a gap"
            session.received[start:] = seen.body[: self.kept.pop(0) if self.kept else None]
            self.progress.set()
        if len(session.received) < int(total):
            end = len(session.received) - 1
            return Answer(308, headers={"Range": f"bytes=0-{end}"} if session.received else {})
        return await self._complete(seen.query["upload_id"], session)

    async def _complete(self, upload_id: str, session: _Session) -> Answer:
        digest = base64.b64encode(hashlib.md5(session.received, usedforsecurity=False).digest()).decode()
        if session.described.get("md5Hash", digest) != digest:
            return refusal(400, "invalid", "Provided MD5 hash does not match the calculated MD5 hash.")
        described = json.dumps(session.described).encode()
        body = b"--b\r\nContent-Type: application/json\r\n\r\n" + described
        body += b"\r\n--b\r\nContent-Type: " + session.described["contentType"].encode() + b"\r\n\r\n"
        query = {"uploadType": "multipart", "name": session.name, "ifGenerationMatch": "0"}
        async with httpx.AsyncClient(trust_env=False) as client:
            found = await client.post(
                f"{self.gcs.endpoint}/upload/storage/v1/b/{session.bucket}/o",
                params=query,
                headers={"Content-Type": "multipart/related; boundary=b"},
                content=body + bytes(session.received) + b"\r\n--b--\r\n",
            )
        if found.status_code == 412:
            return refusal(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
        del self.sessions[upload_id]
        return Answer(found.status_code, found.content)

    async def _linked(self, seen: Seen) -> Answer:
        """Answer a signed link as the documentation of V4 signatures says."""
        values = json.loads(self.key)
        parameters = {name: value for name, value in seen.query.items() if name != "X-Goog-Signature"}
        query = "&".join(f"{quote(n, safe='-_.~')}={quote(v, safe='-_.~')}" for n, v in sorted(parameters.items()))
        canonical = [seen.method, seen.path, query, f"host:{seen.headers['host']}", "", "host", "UNSIGNED-PAYLOAD"]
        begun = datetime.strptime(parameters["X-Goog-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        scope = f"{begun:%Y%m%d}/auto/storage/goog4_request"
        assert parameters["X-Goog-Credential"] == f"{values['client_email']}/{scope}"
        digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
        signed = "\n".join((parameters["X-Goog-Algorithm"], parameters["X-Goog-Date"], scope, digest)).encode()
        public: Any = load_pem_private_key(values["private_key"].encode(), None).public_key()
        try:
            public.verify(bytes.fromhex(seen.query["X-Goog-Signature"]), signed, PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            return Answer(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
        if datetime.now(UTC) > begun + timedelta(seconds=int(parameters["X-Goog-Expires"])):
            return Answer(400, b"<Error><Code>ExpiredToken</Code></Error>")
        _, bucket, name = seen.path.split("/", 2)
        path = f"/storage/v1/b/{bucket}/o/{quote(unquote(name), safe='')}"
        async with httpx.AsyncClient(trust_env=False) as client:
            found = await client.get(f"{self.gcs.endpoint}{path}", params={"alt": "media"})
        headers = {
            "Content-Type": seen.query["response-content-type"],
            "Content-Disposition": seen.query["response-content-disposition"],
        }
        return Answer(found.status_code, found.content, headers)

    async def _forward(self, seen: Seen) -> Answer:
        kept = {name: value for name, value in seen.headers.items() if name in {"content-type", "range"}}
        async with httpx.AsyncClient(trust_env=False) as client:
            url = f"{self.gcs.endpoint}{seen.target}"
            found = await client.request(seen.method, url, headers=kept, content=seen.body)
        if found.status_code == 404 and (named := _OBJECT.fullmatch(seen.path)):
            bucket = (await asyncio.to_thread(httpx.get, f"{self.gcs.endpoint}/storage/v1/b/{named[1]}")).status_code
            if bucket == 404:
                return refusal(404, "notFound", "The specified bucket does not exist.")
            message = f"No such object: {named[1]}/{unquote(named[2])}"
            return Answer(404, message.encode()) if "alt" in seen.query else refusal(404, "notFound", message)
        if found.status_code == 404:
            return refusal(404, "notFound", "The specified bucket does not exist.")
        headers = {name: found.headers[name] for name in ("content-type", "content-range") if name in found.headers}
        return Answer(found.status_code, found.content, headers)


def _has_its_md5(seen: Seen) -> bool:
    boundary = seen.headers["content-type"].partition("boundary=")[2].encode()
    _, described, media, _ = seen.body.split(b"--" + boundary, 3)
    declared = json.loads(described.partition(b"\r\n\r\n")[2])["md5Hash"]
    content = media.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
    return bool(base64.b64decode(declared) == hashlib.md5(content, usedforsecurity=False).digest())


@asynccontextmanager
async def running_google(gcs: FakeGcs, bucket: str, key: str) -> AsyncIterator[Google]:
    """Run a server that knows one service account, by its key, until the block ends."""
    google = Google(gcs, key, bucket)
    async with listening(google) as google.url:
        google.token_url = f"{google.url}/token"
        yield google


@asynccontextmanager
async def listening(server: Answers) -> AsyncIterator[str]:
    """Answer requests until the block ends; yield the address of the server. No response to HEAD has a body."""
    served: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        served[task] = writer
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode("latin-1").split("\r\n")[:-2]
                method, target, _ = first.split(" ")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                url = urlsplit(target)
                query = dict(parse_qsl(url.query, keep_blank_values=True))
                found = await server.answer(Seen(method, url.path, query, headers, body, target))
                if not found.status:
                    return
                sent = "".join(f"{name}: {value}\r\n" for name, value in found.headers.items())
                length = f"Content-Length: {len(found.body)}\r\n"
                written = b"" if method == "HEAD" else found.body
                writer.write(f"HTTP/1.1 {found.status} X\r\n{sent}{length}\r\n".encode("latin-1") + written)
                await writer.drain()
        except (OSError, EOFError):
            pass  # the client disconnected
        finally:
            del served[task]
            writer.close()

    running = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1024 * 1024)
    try:
        yield f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}"
    finally:
        running.close()
        for writer in served.values():
            writer.transport.abort()
        await asyncio.gather(*served)
        await running.wait_closed()
