"""A stub of S3 that keeps no bytes, so that only the service is measured: `python -m bench.s3_stub PORT`.

`python -m bench.s3_stub PORT NUMBER` has that many small texts from the start, each another one, to import them.
"""

import asyncio
import itertools
import re
import sys
from dataclasses import dataclass, field
from xml.sax.saxutils import unescape

import uvloop

_CHUNK = 1 << 20
_LISTED = 1000
_XML = '<?xml version="1.0" encoding="UTF-8"?>'
_KEY = re.compile("<Key>([^<]*)</Key>")
_DELETE = re.compile(r"[?&]delete(=|&|$)")
_NAMES = "<Bucket>b</Bucket><Key>k</Key>"
_NOT_FOUND: "_Response" = (
    "404 Not Found",
    {},
    f"{_XML}<Error><Code>NoSuchKey</Code><Message>There is none.</Message></Error>",
)
_Response = tuple[str, dict[str, str], str]


@dataclass
class _Object:
    """An object's size and its metadata headers."""

    size: int = 0
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass
class _Store:
    objects: dict[str, _Object] = field(default_factory=dict)
    uploads: dict[str, _Object] = field(default_factory=dict)
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    texts: int = 0

    def respond(self, method: str, path: str, headers: dict[str, str], size: int) -> _Response:
        """Return status, headers and body of the response to a request whose body has `size` bytes."""
        key, _, query = path.partition("?")
        parameters = dict(part.partition("=")[::2] for part in query.split("&"))
        metadata = {name: value for name, value in headers.items() if name.startswith("x-amz-meta-")}
        if method == "POST":
            return self._multipart(key, parameters.get("uploadId"), metadata)
        if method == "PUT":
            self._put(key, parameters.get("uploadId"), metadata, size)
        elif method == "DELETE":
            self.objects.pop(key, None)
        else:
            return self._read(key, parameters)
        return "200 OK", {}, ""

    def delete(self, bucket: str, request: bytes) -> _Response:
        """Delete the objects that a request names."""
        keys = _KEY.findall(request.decode())
        for key in keys:
            self.objects.pop(f"{bucket.rstrip('/')}/{unescape(key)}", None)
        return "200 OK", {}, _document("DeleteResult", "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys))

    def _multipart(self, key: str, upload: str | None, metadata: dict[str, str]) -> _Response:
        if upload is None:
            upload = str(next(self.numbers))
            self.uploads[upload] = _Object(0, metadata)
            return "200 OK", {}, _document("InitiateMultipartUploadResult", f"{_NAMES}<UploadId>{upload}</UploadId>")
        self.objects[key] = self.uploads.pop(upload)
        return "200 OK", {}, _document("CompleteMultipartUploadResult", f'{_NAMES}<ETag>"0"</ETag>')

    def _put(self, key: str, upload: str | None, metadata: dict[str, str], size: int) -> None:
        if upload is None:
            self.objects[key] = _Object(size, metadata)
        else:
            self.uploads[upload].size += size

    def _read(self, key: str, parameters: dict[str, str]) -> _Response:
        if "list-type" in parameters:
            return "200 OK", {}, self._list(int(parameters.get("continuation-token", "0")))
        if self.texts and key.endswith(".txt"):
            text = _text(int(key[-12:-4]))  # requests are for parts that are larger
            return "206 Partial Content", {"Content-Range": f"bytes 0-{len(text) - 1}/{len(text)}"}, text
        found = self.objects.get(key)
        return _NOT_FOUND if found is None else ("200 OK", found.metadata | {"Content-Length": str(found.size)}, "")

    def _list(self, begin: int) -> str:
        end = min(begin + _LISTED, self.texts)
        more = f"<NextContinuationToken>{end}</NextContinuationToken>" if end < self.texts else ""
        contents = "".join(
            f"<Contents><Key>texts/{number:08}.txt</Key><LastModified>2026-01-01T00:00:00Z</LastModified>"
            f'<ETag>"{number}"</ETag><Size>{len(_text(number))}</Size></Contents>'
            for number in range(begin, end)
        )
        counted = f"<KeyCount>{end - begin}</KeyCount><IsTruncated>{'true' if more else 'false'}</IsTruncated>{more}"
        return _document("ListBucketResult", f"<Name>b</Name>{counted}{contents}")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve the requests of one connection."""
        try:
            while True:
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                method, path, _ = first.split(" ", 2)
                if headers.get("expect", "").lower() == "100-continue":
                    # Without it a client that asks first waits a second; the baseline's client asks for every object.
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                size = int(headers.get("content-length", "0"))
                if method == "POST" and _DELETE.search(path):
                    response = self.delete(path.partition("?")[0], await reader.readexactly(size))
                else:
                    await _skip(reader, size)
                    response = self.respond(method, path, headers, size)
                writer.write(_rendered(method, *response))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


def _text(number: int) -> str:
    """Return a text of one to two kilobytes that no other number has."""
    return f"This is text {number}, and it says nothing else.\n" * (20 + number % 20)


def _document(name: str, content: str) -> str:
    return f"{_XML}<{name}>{content}</{name}>"


def _rendered(method: str, status: str, headers: dict[str, str], body: str) -> bytes:
    always = {"ETag": '"0"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", "Content-Length": str(len(body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in (always | headers).items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n{'' if method == 'HEAD' else body}".encode()


async def _skip(reader: asyncio.StreamReader, length: int) -> None:
    while length:
        chunk = await reader.read(min(length, _CHUNK))
        if not chunk:
            raise asyncio.IncompleteReadError(b"", length)
        length -= len(chunk)


async def _main(port: int, texts: int = 0) -> None:
    server = await asyncio.start_server(_Store(texts=texts).serve, "127.0.0.1", port, limit=_CHUNK)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_main(*map(int, sys.argv[1:])))
