"""Frames between the server and a child: JSON on a stream socket, descriptors beside the requests. Who says what lives in `link` and `child`.

A frame is a header of two big-endian 32-bit numbers (bytes that follow, number of the request) and one JSON object. A child says
hello in frame 0, once it is locked; every later frame answers the request of its number. The server asks for one file or for several in
one frame, whose number is the first one's: they are answered one by one, in their order.
"""

import array
import json
import math
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

HEADER: Final = struct.Struct("!II")
HELLO: Final = 0
ANSWER_MAX: Final = 256 * 1024
REQUEST_MAX: Final = 64 * 1024
MOST_FILES: Final = 8
"""Requests of one frame."""
_MOST_FDS: Final = max(2, MOST_FILES)
FILENAME_MAX: Final = 1024
"""Characters, counted from the end: the extension is what a job looks at."""


class Nonsense(ValueError):
    """The bytes are no frame that an honest child writes."""


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
"""Made once: `json.dumps` and `json.loads` make new ones for each call that asks for anything of its own."""


@dataclass(frozen=True, slots=True)
class Request:
    """One file to work on. `cpu_seconds` is the processor time that this file may take."""

    number: int
    job: str
    filename: str
    cpu_seconds: int


def pack(number: int, body: Mapping[str, object]) -> bytes:
    """Answer one frame. Lone surrogates become `?`. Raises `TypeError` or `ValueError` for what JSON cannot say (NaN among it)."""
    raw = _ENCODER.encode(body).encode("utf-8", "replace")
    return HEADER.pack(len(raw), number) + raw


def pack_requests(requests: Sequence[Request]) -> bytes:
    """Answer the frame of up to `MOST_FILES` requests whose numbers follow one another, never longer than `REQUEST_MAX`."""
    files = [
        {"job": request.job, "filename": request.filename[-FILENAME_MAX:], "cpu_seconds": request.cpu_seconds}
        for request in requests
    ]
    return pack(requests[0].number, {"files": files})


def parse(raw: bytes) -> dict[str, object]:
    """Answer the JSON object of a frame's body. Raises `Nonsense` for anything else, NaN, Infinity and lone surrogates included."""
    try:
        text = raw.decode()
        body = _DECODER.decode(text)
        if "\\u" in text:
            _ENCODER.encode(body).encode()  # fails on a lone surrogate, which no database takes
    except (ValueError, RecursionError) as fault:
        raise Nonsense("its answer is not JSON") from fault
    if not isinstance(body, dict):
        raise Nonsense("its answer is not a JSON object")
    return body


def receive(sock: socket.socket) -> list[tuple[Request, list[int]]] | None:
    """Child side: wait for the next frame. Answers each request with the descriptors of its file and, where one is lent, of a tray.

    A tray comes with a request that is alone. The caller closes them. None when the server is gone.
    """
    space = socket.CMSG_SPACE(_MOST_FDS * array.array("i").itemsize)
    head, ancillary, _flags, _address = sock.recvmsg(HEADER.size, space)
    if not head:
        return None
    length, number = HEADER.unpack(head + _exactly(sock.fileno(), HEADER.size - len(head)))
    if length > REQUEST_MAX:
        raise Nonsense("a request longer than the server writes")
    body = parse(_exactly(sock.fileno(), length))
    fds = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data)
    requests = [_request(number + place, said) for place, said in enumerate(_listed(body.get("files")))]
    if len(requests) == 1 and fds:
        return [(requests[0], list(fds))]
    if not fds or len(fds) != len(requests):
        raise Nonsense("a request without its file")
    return [(request, [fd]) for request, fd in zip(requests, fds, strict=True)]


def _listed(files: object) -> list[object]:
    if not isinstance(files, list):
        raise Nonsense("no list of files")
    return files


def _request(number: int, said: object) -> Request:
    if not isinstance(said, dict):
        raise Nonsense("a file of which nothing is said")
    return Request(number, str(said["job"]), str(said["filename"]), int(str(said["cpu_seconds"])))


def send(sock: socket.socket, frame: bytes) -> None:
    """Child side: write one frame whole. By `write`, which the lock allows, and not by `send`, which it does not."""
    rest = memoryview(frame)
    while rest:
        rest = rest[os.write(sock.fileno(), rest) :]


def _exactly(fd: int, length: int) -> bytes:
    raw = b""
    while len(raw) < length:
        chunk = os.read(fd, length - len(raw))
        if not chunk:
            raise Nonsense("the server left in the middle of a request")
        raw += chunk
    return raw
