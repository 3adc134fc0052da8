"""Frames between the server and a child: JSON on a stream socket, one or two descriptors beside each request. Who says what lives in `link` and `child`.

A frame is a header of two big-endian 32-bit numbers (bytes that follow, number of the request) and one JSON object. A child says
hello in frame 0, once it is locked; every later frame answers the request of its number.
"""

import array
import json
import os
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

HEADER: Final = struct.Struct("!II")
HELLO: Final = 0
ANSWER_MAX: Final = 256 * 1024
REQUEST_MAX: Final = 16 * 1024
_MOST_FDS: Final = 2
FILENAME_MAX: Final = 1024
"""Characters, counted from the end: the extension is what a job looks at."""


class Nonsense(ValueError):
    """The bytes are no frame that an honest child writes."""


@dataclass(frozen=True, slots=True)
class Request:
    """One file to work on. `cpu_seconds` is the processor time that this file may take."""

    number: int
    job: str
    filename: str
    cpu_seconds: int


def pack(number: int, body: Mapping[str, object]) -> bytes:
    """Answer one frame. Lone surrogates become `?`. Raises `TypeError` or `ValueError` for what JSON cannot say (NaN among it)."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    raw = text.encode("utf-8", "replace")
    return HEADER.pack(len(raw), number) + raw


def pack_request(request: Request) -> bytes:
    """Answer the frame of one request, never longer than `REQUEST_MAX`."""
    body = {"job": request.job, "filename": request.filename[-FILENAME_MAX:], "cpu_seconds": request.cpu_seconds}
    return pack(request.number, body)


def parse(raw: bytes) -> dict[str, object]:
    """Answer the JSON object of a frame's body. Raises `Nonsense` for anything else, NaN, Infinity and lone surrogates included."""
    try:
        text = raw.decode()
        body = json.loads(text, parse_constant=_refuse)
        if "\\u" in text:
            json.dumps(body, ensure_ascii=False).encode()  # fails on a lone surrogate, which no database takes
    except (ValueError, RecursionError) as fault:
        raise Nonsense("its answer is not JSON") from fault
    if not isinstance(body, dict):
        raise Nonsense("its answer is not a JSON object")
    return body


def receive(sock: socket.socket) -> tuple[Request, list[int]] | None:
    """Child side: wait for the next request. Answers it with the descriptors of the file and, where one is lent, of a tray.

    The caller closes them. None when the server is gone.
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
    if not fds:
        raise Nonsense("a request without its file")
    request = Request(number, str(body["job"]), str(body["filename"]), int(str(body["cpu_seconds"])))
    return request, list(fds)


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


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
