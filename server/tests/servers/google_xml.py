"""The XML API of Google Cloud Storage for one HMAC key, with objects in memory: no emulator has it for writing.

It follows the documentation, not the real service: it judges signatures, digests and preconditions as that says, and
refuses a precondition of a multipart upload.
"""

import asyncio
import base64
import hashlib
import hmac
import html
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import unquote

from tests.servers.google import Answer, Seen, listening

ACCESS_ID = "GOOG1EXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEE"
_LEAST_PART = 5 * 1024 * 1024
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_ALGORITHM = "GOOG4-HMAC-SHA256"


@dataclass
class Stored:
    """An object: its bytes, and the headers that it was put with."""

    body: bytes
    headers: Mapping[str, str]
    generation: int


@dataclass
class Upload:
    """A multipart upload that is neither completed nor aborted."""

    bucket: str
    key: str
    headers: Mapping[str, str]
    begun: datetime
    parts: dict[int, bytes] = field(default_factory=dict)


@dataclass
class GoogleXml:
    """A running server. `interfere` may answer a request before it is judged; None leaves it to the server."""

    secret: str
    url: str = ""
    buckets: dict[str, dict[str, Stored]] = field(default_factory=dict)
    uploads: dict[str, Upload] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    interfere: Callable[[Seen], Answer | None] = lambda _: None
    is_public: bool = False
    is_versioned: bool = False
    clock: timedelta = timedelta()
    """How far its clock is ahead."""
    page: int = 1000
    progress: asyncio.Event = field(default_factory=asyncio.Event)
    _generations: int = 1_700_000_000_000_000

    def fresh_bucket(self) -> str:
        """Make a bucket that no other test uses and return its name."""
        name = f"test-{secrets.token_hex(8)}"
        self.buckets[name] = {}
        return name

    def platform_settings(self) -> dict[str, str]:
        """Return the settings of a service whose platform's store is a fresh bucket."""
        return {
            "STORAGE_URL": f"gs://{self.fresh_bucket()}",
            "STORAGE_ENDPOINT": self.url,
            "STORAGE_ACCESS_KEY_ID": ACCESS_ID,
            "STORAGE_SECRET_ACCESS_KEY": self.secret,
        }

    async def reached(self, parts: int) -> None:
        """Wait until an upload has that many parts."""
        while not any(len(upload.parts) >= parts for upload in self.uploads.values()):
            await self.progress.wait()
            self.progress.clear()

    async def answer(self, seen: Seen) -> Answer:
        """Return the response to a request."""
        self.seen.append(seen)
        found = self.interfere(seen) or self._judge(seen) or self._carry_out(seen)
        return Answer(
            found.status, found.body, {"Date": format_datetime(self._now(), usegmt=True)} | dict(found.headers)
        )

    def _now(self) -> datetime:
        return datetime.now(UTC) + self.clock

    def _judge(self, seen: Seen) -> Answer | None:
        """Return why a request may not be carried out."""
        if "X-Goog-Signature" in seen.query:
            return self._judge_link(seen)
        given = seen.headers.get("authorization")
        if given is None:
            is_read = seen.method == "GET" and seen.path.count("/") > 1 and not seen.query
            return None if self.is_public and is_read else lacking("storage.objects.get", "Anonymous caller")
        algorithm, _, fields = given.partition(" ")
        words = dict(word.split("=", 1) for word in fields.split(","))
        names = words["SignedHeaders"].split(";")
        wanted = {name for name in seen.headers if name.startswith("x-goog-")} | {"host"}
        if not wanted.issubset(names) or names != sorted(names):
            return refusal(400, "InvalidArgument", "Headers that must be signed are not.")
        if hashlib.sha256(seen.body).hexdigest() != seen.headers["x-goog-content-sha256"]:
            return refusal(400, "InvalidArgument", "The provided content hash is not that of the body.")
        lines = [f"{name}:{seen.headers[name]}" for name in names]
        request = [*self._head_of(seen, ""), *lines, "", ";".join(names), seen.headers["x-goog-content-sha256"]]
        return self._verify(algorithm, words["Credential"], seen.headers["x-goog-date"], request, words["Signature"])

    def _judge_link(self, seen: Seen) -> Answer | None:
        query = seen.query
        if query["X-Goog-SignedHeaders"] != "host" or seen.method != "GET":
            return refusal(400, "InvalidArgument", "Only links to get an object are known.")
        request = [
            *self._head_of(seen, "X-Goog-Signature"),
            f"host:{seen.headers['host']}",
            "",
            "host",
            "UNSIGNED-PAYLOAD",
        ]
        moment = query["X-Goog-Date"]
        ends = _moment(moment) + timedelta(seconds=min(int(query["X-Goog-Expires"]), 604_800))
        if ends < self._now():
            return refusal(400, "ExpiredToken", "The provided token has expired.")
        return self._verify(
            query["X-Goog-Algorithm"], query["X-Goog-Credential"], moment, request, query["X-Goog-Signature"]
        )

    def _head_of(self, seen: Seen, without: str) -> list[str]:
        """Return verb, path and query as they are signed."""
        query = sorted(f"{_encoded(name)}={_encoded(value)}" for name, value in seen.query.items() if name != without)
        path = "/".join(_encoded(unquote(name)) for name in seen.path.split("/"))
        return [seen.method, path, "&".join(query)]

    def _verify(
        self, algorithm: str, credential: str, moment: str, request: list[str], signature: str
    ) -> Answer | None:
        access_id, _, scope = credential.partition("/")
        if access_id != ACCESS_ID:
            return refusal(403, "InvalidAccessKeyId", "The access ID you provided does not exist in our records.")
        if abs(_moment(moment) - self._now()) > timedelta(minutes=15) and "expires" not in request[2].lower():
            return refusal(403, "RequestTimeTooSkewed", "The difference between the times is too large.")
        assert algorithm == _ALGORITHM
        assert scope == f"{moment[:8]}/auto/storage/goog4_request"
        key = b"GOOG4" + self.secret.encode()
        for word in scope.split("/"):
            key = hmac.new(key, word.encode(), hashlib.sha256).digest()
        text = "\n".join((algorithm, moment, scope, hashlib.sha256("\n".join(request).encode()).hexdigest()))
        if not hmac.compare_digest(hmac.new(key, text.encode(), hashlib.sha256).hexdigest(), signature):
            return refusal(403, "SignatureDoesNotMatch", "The signature does not match the one that we calculated.")
        return None

    def _carry_out(self, seen: Seen) -> Answer:
        _, bucket, *rest = unquote(seen.path).split("/", 2)
        if bucket not in self.buckets:
            return refusal(404, "NoSuchBucket", "The specified bucket does not exist.")
        if not rest:
            return self._of_bucket(seen, bucket)
        if "content-md5" in seen.headers:
            digest = base64.b64encode(hashlib.md5(seen.body, usedforsecurity=False).digest()).decode()
            if digest != seen.headers["content-md5"]:
                return refusal(400, "BadDigest", "The Content-MD5 you specified did not match what we received.")
        if "uploads" in seen.query or "uploadId" in seen.query:
            return self._of_upload(seen, bucket, rest[0])
        return self._of_object(seen, self.buckets[bucket], rest[0])

    def _of_bucket(self, seen: Seen, bucket: str) -> Answer:
        if "versioning" in seen.query:
            state = "<Status>Enabled</Status>" if self.is_versioned else ""
            return Answer(200, f"<VersioningConfiguration>{state}</VersioningConfiguration>".encode())
        prefix = seen.query.get("prefix", "")
        if "uploads" in seen.query:
            after = seen.query.get("key-marker", ""), seen.query.get("upload-id-marker", "")
            found = sorted((one.key, name) for name, one in self.uploads.items() if one.bucket == bucket)
            found = [one for one in found if one[0].startswith(prefix) and one > after]
            entries = [
                f"<Upload><Key>{html.escape(key)}</Key><UploadId>{name}</UploadId>"
                f"<Initiated>{self.uploads[name].begun:%Y-%m-%dT%H:%M:%S.%fZ}</Initiated></Upload>"
                for key, name in found
            ]
            return self._listing("ListMultipartUploadsResult", entries)
        assert seen.query["list-type"] == "2"
        after_key = seen.query.get("start-after", "").encode()
        keys = sorted((key for key in self.buckets[bucket] if key.startswith(prefix)), key=str.encode)
        entries = [
            f"<Contents><Key>{html.escape(key)}</Key><Generation>{stored.generation}</Generation>"
            f"<Size>{len(stored.body)}</Size></Contents>"
            for key in keys
            if key.encode() > after_key
            for stored in [self.buckets[bucket][key]]
        ]
        return self._listing("ListBucketResult", entries)

    def _listing(self, name: str, entries: list[str]) -> Answer:
        is_truncated = str(len(entries) > self.page).lower()
        body = f"<IsTruncated>{is_truncated}</IsTruncated>{''.join(entries[: self.page])}"
        return Answer(200, f"<?xml version='1.0' encoding='UTF-8'?><{name}>{body}</{name}>".encode())

    def _of_object(self, seen: Seen, objects: dict[str, Stored], key: str) -> Answer:
        stored = objects.get(key)
        if seen.method == "PUT":
            if seen.headers.get("x-goog-if-generation-match") == "0" and stored is not None:
                return refusal(412, "PreconditionFailed", "At least one of the pre-conditions did not hold.")
            return self._store(objects, key, seen.body, seen.headers)
        if stored is None:
            return refusal(404, "NoSuchKey", "The specified key does not exist.")
        if seen.method == "DELETE":
            del objects[key]
            return Answer(204)
        headers = {name: value for name, value in stored.headers.items() if name.startswith("x-goog-meta-")}
        headers |= {"ETag": '"tag"', "x-goog-generation": str(stored.generation)}
        headers |= {"Content-Type": seen.query.get("response-content-type", stored.headers["content-type"])}
        if "response-content-disposition" in seen.query:
            headers["Content-Disposition"] = seen.query["response-content-disposition"]
        if "range" not in seen.headers or seen.method == "HEAD":
            return Answer(200, stored.body, headers)
        start, stop = map(int, seen.headers["range"].removeprefix("bytes=").split("-"))
        size = len(stored.body)
        if start >= size:
            return Answer(416, b"<Error><Code>InvalidRange</Code></Error>", {"Content-Range": f"bytes */{size}"})
        body = stored.body[start : stop + 1]
        headers["Content-Range"] = f"bytes {start}-{start + len(body) - 1}/{size}"
        return Answer(206, body, headers)

    def _store(self, objects: dict[str, Stored], key: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        self._generations += 1
        objects[key] = Stored(body, headers, self._generations)
        return Answer(200, headers={"ETag": '"tag"', "x-goog-generation": str(self._generations)})

    def _of_upload(self, seen: Seen, bucket: str, key: str) -> Answer:
        if any(name.startswith("x-goog-if-") for name in seen.headers):
            return refusal(400, "NotImplemented", "Preconditions cannot be used in XML API multipart uploads.")
        if "uploads" in seen.query:
            name = f"ABP{secrets.token_urlsafe(24)}"
            self.uploads[name] = Upload(bucket, key, seen.headers, self._now())
            body = f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
            return Answer(200, body.encode())
        upload = self.uploads.get(seen.query["uploadId"])
        if upload is None or (upload.bucket, upload.key) != (bucket, key):
            return refusal(404, "NoSuchUpload", "The requested upload was not found.")
        if seen.method == "PUT":
            upload.parts[int(seen.query["partNumber"])] = seen.body
            self.progress.set()
            return Answer(200, headers={"ETag": _tag(seen.body)})
        if seen.method == "DELETE":
            del self.uploads[seen.query["uploadId"]]
            return Answer(204)
        parts = [upload.parts[number] for number in sorted(upload.parts)]
        if any(len(part) < _LEAST_PART for part in parts[:-1]):
            return refusal(400, "EntityTooSmall", "Your proposed upload is smaller than the minimum object size.")
        listed = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{html.escape(_tag(part))}</ETag></Part>"
            for number, part in sorted(upload.parts.items())
        )
        if seen.body.decode() != f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>":
            return refusal(400, "InvalidPart", "One or more of the specified parts could not be found.")
        del self.uploads[seen.query["uploadId"]]
        self._store(self.buckets[bucket], key, b"".join(parts), upload.headers)
        return Answer(200, b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")


def refusal(status: int, code: str, message: str, details: str = "") -> Answer:
    """Return an error as the XML API states it."""
    more = f"<Details>{html.escape(details)}</Details>" if details else ""
    body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>"
    return Answer(status, body.encode(), {"Content-Type": "application/xml; charset=UTF-8"})


def lacking(permission: str, who: str = "sluice@example.iam.gserviceaccount.com") -> Answer:
    """Return the error for a caller without a permission."""
    details = f"{who} does not have {permission} access to the Google Cloud Storage object."
    details += f" Permission '{permission}' denied on resource (or it may not exist)."
    return refusal(403, "AccessDenied", "Access denied.", details)


def _encoded(text: str) -> str:
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in text.encode())


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


def _tag(part: bytes) -> str:
    return f'"{hashlib.md5(part, usedforsecurity=False).hexdigest()}"'


@asynccontextmanager
async def running_google_xml() -> AsyncIterator[GoogleXml]:
    """Run a server that knows one HMAC key until the block ends."""
    google = GoogleXml(base64.b64encode(secrets.token_bytes(30)).decode())
    async with listening(google) as google.url:
        yield google
