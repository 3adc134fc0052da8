"""Compile the operator's YARA rules, in a process of its own: bounded processor time and memory, no other work.

In, over the socket: nothing but a file in memory, to which the compiled rules are written. Out: one JSON object, see
`sandbox.rules.CompiledRules`. Each file is a namespace of its own, called by its path within the folder. A file that
another one includes is compiled with that one only.
"""

import hashlib
import io
import json
import os
import re
import resource
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yara_x

from sluice_inspect.child import confinement, kept_rules
from sluice_inspect.threats.operator_rules import VARIABLES, printable

_SUFFIXES: Final = frozenset({".yar", ".yara"})
_FILES_MAX: Final = 10_000
_BYTES_MAX: Final = 64 * 1024**2
_TEXT_MAX: Final = 300
_NAMES_MAX: Final = 20
_VERSION_DIGITS: Final = 16
# Also within a comment, and across one: what is no include is a path that lies in the folder.
_INCLUDE: Final = re.compile(r'\binclude(?:\s|/\*.*?\*/|//[^\n]*\n)*"((?:[^"\\\n]|\\.)*)"', re.DOTALL)

_MIB: Final = 1024**2
# What rules are timed on: a text, a program's zeros and bytes that repeat rarely.
_NOISE: Final = hashlib.shake_128(b"sluice").digest(_MIB // 2)
_TIMED: Final = b"the quick brown fox jumps over the lazy dog, 0123456789 times\r\n" * 4096 + bytes(_MIB // 4) + _NOISE
_SLOW_SECONDS: Final = 0.1  # for `_TIMED`, of a file of rules
_TIMING_SECONDS: Final = 20.0
_ALL_MAX_SECONDS: Final = 20  # for one scan by all rules
_FILE_MAX_SECONDS: Final = 3  # and by those of one file, once all together took longer
_LOAD_SECONDS: Final = 20.0  # the server gives up the process that loads them after 60 s
_HARMLESS: Final = (
    b"Dear Sir or Madam,\nplease find the minutes of the meeting attached.\n",
    b"name,amount\nalpha,1\nbeta,2\n",
    b"%PDF-1.4\n1 0 obj\n<</Type/Catalog>>\nendobj\ntrailer\n<</Root 1 0 R>>\n%%EOF\n",
    bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000049454e44ae426082"),
    _NOISE[: 16 * 1024],
)


class _Refused(Exception):
    """The rules cannot be used. `str()` says in which file and line, and why."""


@dataclass(slots=True)
class _Sources:
    """The texts of a folder, by path within it; `included` ones are not compiled by themselves."""

    texts: dict[str, str] = field(default_factory=dict)
    included: set[str] = field(default_factory=set)

    @property
    def version(self) -> str:
        """A digest of all texts and of their names."""
        digest = hashlib.sha256()
        for name, text in sorted(self.texts.items()):
            for part in (name.encode(), text.encode()):
                digest.update(len(part).to_bytes(8, "big") + part)
        return digest.hexdigest()[:_VERSION_DIGITS]


def main(raw_arguments: str) -> None:
    """Compile the rules of a folder. The arguments are JSON; the sources of good rules are written to `kept`, if set.

    Also in them: `socket`, `parent`, `folder`, `cpu_seconds`, `memory_bytes`.
    """
    arguments = json.loads(raw_arguments)
    confinement.die_with(arguments["parent"])
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (arguments["cpu_seconds"], arguments["cpu_seconds"] + 1))
    resource.setrlimit(resource.RLIMIT_AS, (arguments["memory_bytes"], arguments["memory_bytes"]))
    with socket.socket(fileno=arguments["socket"]) as sock:
        _data, fds, _flags, _address = socket.recv_fds(sock, 1, 1)
        with os.fdopen(fds[0], "wb") as out:
            try:
                answer = _compile_folder(Path(arguments["folder"]), out, kept=arguments["kept"])
            except _Refused as refused:
                answer = {"fault": str(refused)}
            except OSError as error:
                answer = {"fault": f"{error.filename}: {error.strerror}"}
            except MemoryError:
                answer = {"fault": "the rules need too much memory to compile"}
        sock.sendall(json.dumps(answer).encode())


def _compile_folder(folder: Path, out: io.BufferedWriter, *, kept: str | None = None) -> Mapping[str, object]:
    sources = _read(folder.resolve(strict=True))
    compiler = _compiler(folder)
    names = sorted(sources.texts.keys() - sources.included)
    for name in names:
        _add(compiler, name, sources.texts[name])
    slow_patterns = [
        f"{printable(str(warning.get('labels', [{}])[0].get('code_origin')), _TEXT_MAX)}:{warning['line']}"
        for warning in compiler.warnings()
        if warning["code"] == "slow_pattern"
    ]
    rules = compiler.build()
    rules.serialize_into(out)
    try:
        total = _seconds(rules, _TIMED, _ALL_MAX_SECONDS)
        _require_quick_load(rules)
    except yara_x.TimeoutError:
        raise _Refused(_name_endless(folder, sources, names)) from None
    not_kept = ""
    if kept is not None:
        try:
            kept_rules.keep(sources.texts, sources.version, Path(kept))
        except OSError as error:
            not_kept = printable(f"{error.filename}: {error.strerror}", _TEXT_MAX)
    return {
        "version": sources.version,
        "not_kept": not_kept,
        "files": len(names),
        "slow": _slow_files(folder, sources, names) if total > _SLOW_SECONDS else [],
        "slow_patterns": slow_patterns[:_NAMES_MAX],
        "ms_per_mb": round(total * 1000 * _MIB / len(_TIMED), 1),
        "match_everything": _match_everything(rules),
    }


def _compiler(folder: Path) -> yara_x.Compiler:
    compiler = yara_x.Compiler()
    compiler.add_include_dir(str(folder))
    for name in VARIABLES:
        compiler.define_global(name, "")
    return compiler


def _add(compiler: yara_x.Compiler, name: str, text: str) -> None:
    compiler.new_namespace(name)
    try:
        compiler.add_source(text, origin=name)
    except yara_x.CompileError:
        error: dict[str, Any] = compiler.errors()[0]
        label: dict[str, Any] = next(iter(error.get("labels", [])), {})
        where = f"{label.get('code_origin') or name}:{label.get('line') or error.get('line')}"
        said = ": ".join(filter(None, (error.get("title"), label.get("text"))))
        raise _Refused(printable(f"{where}: {said}", _TEXT_MAX)) from None


def _read(folder: Path) -> _Sources:
    """Return the texts of the folder. Raise `_Refused`, or `OSError`."""
    sources = _Sources()
    size = 0
    waiting = list(_rule_files(folder))
    while waiting:
        path = waiting.pop()
        name = str(path.relative_to(folder))
        if name in sources.texts:
            continue
        if not path.resolve(strict=True).is_relative_to(folder):
            raise _Refused(f"{name}: it is a link to a file outside of the folder")
        raw = path.read_bytes()
        size += len(raw)
        if len(sources.texts) >= _FILES_MAX or size > _BYTES_MAX:
            raise _Refused(f"expected at most {_FILES_MAX} files of {_BYTES_MAX} bytes together")
        try:
            text = sources.texts[name] = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            raise _Refused(f"{name}:{line}: it is not UTF-8") from None
        for included in _INCLUDE.finditer(text):
            target = Path(os.path.normpath(folder / included[1]))
            if not target.is_relative_to(folder):
                line = text.count("\n", 0, included.start()) + 1
                raise _Refused(f"{name}:{line}: it includes a file outside of the folder")
            if target.is_file():  # otherwise the compiler says that there is none
                sources.included.add(str(target.relative_to(folder)))
                waiting.append(target)
    if not sources.texts:
        raise _Refused("the folder has no file *.yar or *.yara")
    return sources


def _rule_files(folder: Path) -> Iterator[Path]:
    """Yield the files of rules; what begins with a dot is left out, as volumes of Kubernetes have their files twice."""
    for root, folders, files in os.walk(folder, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if not name.startswith(".") and Path(name).suffix.lower() in _SUFFIXES:
                yield Path(root, name)


def _raise(error: OSError) -> None:
    raise error


def _seconds(rules: yara_x.Rules, data: bytes, most: int) -> float:
    """Return the processor time of a scan of `data`. Raise `TimeoutError` of YARA-X if it takes more than `most`."""
    scanner = yara_x.Scanner(rules)
    seconds = most
    while True:
        scanner.set_timeout(seconds)  # by the clock
        began = time.process_time()
        try:
            scanner.scan(data)
        except yara_x.TimeoutError:
            if time.process_time() - began > most / 2:
                raise
            seconds *= 2  # the machine had other work
        else:
            return time.process_time() - began


def _require_quick_load(rules: yara_x.Rules) -> None:
    """Load the rules as the process does that forks all workers, which does nothing else meanwhile.

    Raise `_Refused` if that takes too long.
    """
    serialized = io.BytesIO()
    rules.serialize_into(serialized)
    serialized.seek(0)
    began = time.process_time()
    _seconds(yara_x.Rules.deserialize_from(serialized), b"", _ALL_MAX_SECONDS)
    if time.process_time() - began > _LOAD_SECONDS:
        raise _Refused(f"the rules take more than {_LOAD_SECONDS:.0f} s of processor time to load")


def _name_endless(folder: Path, sources: _Sources, names: list[str]) -> str:
    """Return which file has the rules that do not end in time."""
    for name in names:
        compiler = _compiler(folder)
        _add(compiler, name, sources.texts[name])
        rules = compiler.build()
        try:
            _seconds(rules, _TIMED, _FILE_MAX_SECONDS)
            _seconds(rules, b"", _FILE_MAX_SECONDS)
        except yara_x.TimeoutError:
            identifiers = [rule.identifier for rule in rules]
            which = f"the rule {identifiers[0]} takes" if len(identifiers) == 1 else "its rules take"
            return printable(f"{name}: {which} more than {_FILE_MAX_SECONDS} s for 1 MiB", _TEXT_MAX)
    return f"the rules take more than {_ALL_MAX_SECONDS} s for 1 MiB"


def _slow_files(folder: Path, sources: _Sources, names: list[str]) -> list[list[object]]:
    """Return the files whose rules take longest, with milliseconds, the slowest first; as far as the time allows."""
    found: list[tuple[float, str]] = []
    end = time.process_time() + _TIMING_SECONDS
    for name in names:
        if time.process_time() > end:
            break
        compiler = _compiler(folder)
        _add(compiler, name, sources.texts[name])
        found.append((_seconds(compiler.build(), _TIMED, _ALL_MAX_SECONDS), name))
    slowest = sorted(found, reverse=True)[:3]
    return [[printable(name, _TEXT_MAX), round(seconds * 1000)] for seconds, name in slowest]


def _match_everything(rules: yara_x.Rules) -> list[str]:
    """Return the rules that match every one of some harmless files."""
    scanner = yara_x.Scanner(rules)
    matched = [
        {f"{rule.namespace}:{rule.identifier}" for rule in scanner.scan(each).matching_rules} for each in _HARMLESS
    ]
    return [printable(name, _TEXT_MAX) for name in sorted(set.intersection(*matched))[:_NAMES_MAX]]
