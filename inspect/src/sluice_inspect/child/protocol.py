"""Frames between the server and a worker: JSON on a stream socket, with file descriptors beside the requests.

A frame is a header of two big-endian 32-bit numbers (length of the body, number of the request) and one JSON object. A
worker sends hello in frame 0 once it is confined; every later frame replies to the request of its number. The server
sends one request or several in one frame, which carries the number of the first; the replies come one by one, in order.
"""

import array
import json
import math
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NoReturn

# How firmly workers are confined: `strict` by rlimits, no_new_privs, seccomp and Landlock; `seccomp` without Landlock;
# `limits-only` by rlimits and no_new_privs.
Level = Literal["strict", "seccomp", "limits-only"]

HEADER: Final = struct.Struct("!II")
HELLO: Final = 0
REPLY_MAX: Final = 256 * 1024
REQUEST_MAX: Final = 64 * 1024
REQUESTS_MAX: Final = 8  # in one frame
_DESCRIPTORS_MAX: Final = max(2, REQUESTS_MAX)  # a file and a shared buffer, or one file for each request
FILENAME_MAX: Final = 1024  # in characters, counted from the end: jobs use the extension


class FrameError(ValueError):
    """The bytes are no frame that an honest peer writes."""


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _parse_finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


# Built once: `json.dumps` and `json.loads` build new ones for each call with options.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_parse_finite)


@dataclass(frozen=True, slots=True)
class JobRequest:
    """One job on one file. `cpu_seconds` is the processor time that it may use."""

    number: int
    job: str
    filename: str
    cpu_seconds: int


def pack(number: int, body: Mapping[str, object]) -> bytes:
    """Return one frame; lone surrogates become `?`. Raise `TypeError` or `ValueError` for what is not JSON, as NaN."""
    raw = _ENCODER.encode(body).encode("utf-8", "replace")
    return HEADER.pack(len(raw), number) + raw


def pack_requests(requests: Sequence[JobRequest]) -> bytes:
    """Return the frame of up to `REQUESTS_MAX` requests with consecutive numbers, of at most `REQUEST_MAX` bytes."""
    files = []
    for request in requests:
        name = request.filename[-FILENAME_MAX:]
        files.append({"job": request.job, "filename": name, "cpu_seconds": request.cpu_seconds})
    return pack(requests[0].number, {"files": files})


def parse(raw: bytes) -> dict[str, object]:
    """Return the JSON object in a frame's body. Raise `FrameError` for anything else, NaN and lone surrogates."""
    try:
        text = raw.decode()
        body = _DECODER.decode(text)
        if "\\u" in text:
            _ENCODER.encode(body).encode()  # fails on a lone surrogate, which no database accepts
    except (ValueError, RecursionError) as error:
        raise FrameError("its reply is not JSON") from error
    if not isinstance(body, dict):
        raise FrameError("its reply is not a JSON object")
    return body


def receive(sock: socket.socket) -> list[tuple[JobRequest, list[int]]] | None:
    """Wait for the next frame and return each request with its descriptors, or None when the server is gone.

    The first descriptor is the file; a request alone in its frame may bring a shared buffer. The caller closes them.
    Raise `FrameError` if the frame is malformed.
    """
    space = socket.CMSG_SPACE(_DESCRIPTORS_MAX * array.array("i").itemsize)
    head, ancillary, _flags, _address = sock.recvmsg(HEADER.size, space)
    if not head:
        return None
    length, number = HEADER.unpack(head + _read_exactly(sock.fileno(), HEADER.size - len(head)))
    if length > REQUEST_MAX:
        raise FrameError("a request longer than the server writes")
    files = parse(_read_exactly(sock.fileno(), length)).get("files")
    if not isinstance(files, list):
        raise FrameError("no list of files")
    fds = array.array("i")
    for level, message_type, data in ancillary:
        if (level, message_type) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data)
    requests = [_read_request(number + position, file) for position, file in enumerate(files)]
    if len(requests) == 1 and fds:
        return [(requests[0], list(fds))]
    if not fds or len(fds) != len(requests):
        raise FrameError("a request without its file")
    return [(request, [fd]) for request, fd in zip(requests, fds, strict=True)]


def _read_request(number: int, file: object) -> JobRequest:
    if not isinstance(file, dict):
        raise FrameError("a request that is not a JSON object")
    return JobRequest(number, str(file["job"]), str(file["filename"]), int(str(file["cpu_seconds"])))


def send(sock: socket.socket, frame: bytes) -> None:
    """Write one frame whole (worker side)."""
    rest = memoryview(frame)
    while rest:
        rest = rest[os.write(sock.fileno(), rest) :]  # the seccomp filter allows `write`, and not `send`


def _read_exactly(fd: int, length: int) -> bytes:
    raw = b""
    while len(raw) < length:
        chunk = os.read(fd, length - len(raw))
        if not chunk:
            raise FrameError("the server left in the middle of a request")
        raw += chunk
    return raw
