"""Have the operator's YARA rules compiled in a process of their own, and validate what it returns."""

import asyncio
import fcntl
import json
import os
import re
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sluice_inspect.sandbox.launch import IsolatedProcess
from sluice_inspect.sandbox.protocol import CompiledRules, OperatorRules, RulesBroken, RulesUnavailable

_MODULE: Final = "sluice_inspect.child.compile_rules"
_CPU_SECONDS: Final = 120
_WALL_SECONDS: Final = 300.0
_MEMORY_BYTES: Final = 4 * 1024**3
_ANSWER_MAX: Final = 256 * 1024
_RULES_MAX: Final = 512 * 1024**2
_VERSION: Final = re.compile(r"[0-9a-f]{16}")
_SEALS: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


async def compile_rules(folder: Path) -> CompiledRules:
    """Return the compiled rules of a folder, whose descriptor is the caller's. Raise `RulesBroken` or `RulesUnavailable`."""
    fd = os.memfd_create("sluice-rules", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        return _parse(await _ask(folder, fd), fd)
    except BaseException:
        os.close(fd)
        raise


async def _ask(folder: Path, fd: int) -> Mapping[str, object]:
    ours, theirs = socket.socketpair()
    arguments = {"folder": str(Path.cwd() / folder), "cpu_seconds": _CPU_SECONDS, "memory_bytes": _MEMORY_BYTES}
    try:
        with theirs:
            process = IsolatedProcess(_MODULE, arguments, theirs)
    except OSError as error:
        ours.close()
        raise RulesUnavailable(f"no process can be started: {error}") from error
    try:
        with ours:
            ours.setblocking(False)
            socket.send_fds(ours, [b"\0"], [fd])
            raw = await _read(ours)
        await process.wait()
    except TimeoutError:
        raise RulesUnavailable(f"the rules were not compiled within {_WALL_SECONDS:.0f} s") from None
    finally:
        process.end()
    if not raw:
        if process.poll() == -signal.SIGXCPU:
            raise RulesBroken(f"the rules take more than {_CPU_SECONDS} s of processor time to compile")
        why = process.last_error_line() or "their compiler ended early"
        raise RulesUnavailable(f"the rules could not be compiled: {why}")
    answer = json.loads(raw)
    return answer if isinstance(answer, dict) else {}


async def _read(sock: socket.socket) -> bytes:
    """Return all that comes until the other end is closed."""
    loop = asyncio.get_running_loop()
    raw = b""
    async with asyncio.timeout(_WALL_SECONDS):
        while len(raw) < _ANSWER_MAX and (piece := await loop.sock_recv(sock, 64 * 1024)):
            raw += piece
    return raw


def _parse(answer: Mapping[str, object], fd: int) -> CompiledRules:
    """Seal the compiled rules and return them. Raise `RulesBroken`."""
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    if os.fstat(fd).st_size > _RULES_MAX:
        raise RulesBroken(f"the compiled rules have more than {_RULES_MAX} bytes")
    match answer:
        case {"fault": str(fault)}:
            raise RulesBroken(fault)
        case {
            "version": str(version),
            "files": int(files),
            "slow": list(slow),
            "slow_patterns": list(slow_patterns),
            "ms_per_mb": int(ms) | float(ms),
            "match_everything": list(match_everything),
        } if _VERSION.fullmatch(version):
            return CompiledRules(
                OperatorRules(version, fd),
                files,
                tuple((str(name), int(ms)) for name, ms in slow),
                tuple(map(str, slow_patterns)),
                float(ms),
                tuple(map(str, match_everything)),
            )
    raise RulesUnavailable("the compiler returned an invalid answer")
