"""Reads XML as a stream, without DTD files, entity expansion, network or trees in memory. What the elements mean is not known here.

libxml2 walks the document; a target sees the events that it has methods for. A target without methods costs no Python call at all,
so a bare well-formedness check runs at the speed of the C library in constant memory.
"""

import encodings
import pkgutil
import re
from collections.abc import Mapping
from encodings.aliases import aliases
from enum import Enum
from typing import BinaryIO, Final, Protocol, cast

from lxml import etree

from sluice.formats.verdict import Corrupt, Finding, Judgement, Limits, TooComplex, Unsafe, Unsupported

_LIBRARY_DEPTH: Final = 256
"""Deeper nesting is refused by libxml2 itself, unless `huge_tree` is on, which it never is here."""

_BUDGET_ERRORS: Final = frozenset({etree.ErrorTypes.ERR_COMMENT_NOT_FINISHED, etree.ErrorTypes.ERR_CDATA_NOT_FINISHED})
_ENCODINGS: Final = {*aliases, *aliases.values(), *(module.name for module in pkgutil.iter_modules(encodings.__path__))}
"""Names that exist, listed now: looking one up later would need a file system, which the sandbox has not."""
_EXTERNAL_ENTITY: Final = re.compile(rb"<!ENTITY\s+(?:%\s+)?(\S+)\s+(?:SYSTEM|PUBLIC)\s")


class Doctype(Enum):
    """What a DOCTYPE in front of the root means."""

    FORBIDDEN = "forbidden"
    """Damage: no writer of this format makes one, and its readers refuse it."""
    INERT = "inert"
    """Read over: its declarations are checked for bombs; nothing that it names is loaded."""


class XmlTarget:
    """Base of all targets: hears nothing. A subclass adds `start(tag, attributes)`, `end(tag)` or `data(text)`, and pays only for those.

    Tags and attribute names come as `{namespace}local`; text comes in pieces.
    """

    def close(self) -> None:
        """End of the document, also after an error."""


class Enough(Exception):
    """Raised by a target that needs to see no more."""


class XmlReader(Protocol):
    """Where the bytes come from: an opened source or an archive member."""

    def read(self, size: int, /) -> bytes:
        """Answer up to `size` bytes, none at the end."""


def parse_xml(
    stream: XmlReader | BinaryIO,
    limits: Limits,
    *,
    target: XmlTarget | None = None,
    doctype: Doctype = Doctype.INERT,
    where: str = "the document",
) -> bool:
    """Read one document to its end, or until its target has enough; answer whether the end was reached.

    Raises `Corrupt` when it is not well-formed, `Unsupported` for an encoding that only other readers know, `TooComplex` past the depth
    or the 10 MB that one name, attribute, comment or CDATA section may have, `Unsafe` when entities multiply. `Judgement`s and errors
    of the stream pass through. `where` names the document in the details.
    """
    guarded = _guard(target or XmlTarget(), limits, doctype, where)
    parser = etree.XMLParser(
        target=guarded,  # type: ignore[arg-type]  # the stubs ask for all events; lxml takes any of them
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
    )
    try:
        etree.parse(cast("BinaryIO", _Unnamed(stream)), parser)
    except Enough:
        return False
    except etree.XMLSyntaxError as error:
        raise _judge(error, where) from error
    except (LookupError, AssertionError) as error:  # lxml asserts on some impossible encodings instead of reporting them
        raise Corrupt(f"{where} cannot be read as XML: {error}"[:300]) from error
    return True


def external_entities(head: bytes) -> tuple[str, ...]:
    """Answer the names of entities that a document's first bytes declare to lie outside of it. They are never loaded."""
    if b"<!DOCTYPE" not in head:
        return ()
    return tuple(name.decode("utf-8", "replace") for name in _EXTERNAL_ENTITY.findall(head))


class _Unnamed:
    """Hides `name` and `seek` of a stream, which lxml would use to open files itself."""

    def __init__(self, stream: XmlReader | BinaryIO) -> None:
        self.read = stream.read


class _NoDoctype(XmlTarget):
    def __init__(self, where: str) -> None:
        self._where = where

    def doctype(self, _name: str, _public_id: str | None, _system_url: str | None) -> None:
        raise Corrupt(f"{self._where} begins with a DOCTYPE, which this format forbids and its readers refuse")


class _Shallow(XmlTarget):
    def __init__(self, where: str, most: int) -> None:
        self._where = where
        self._left = most

    def start(self, _tag: str, _attributes: Mapping[str, str]) -> None:
        self._left -= 1
        if self._left < 0:
            raise TooComplex(f"{self._where} nests its elements too deeply")

    def end(self, _tag: str) -> None:
        self._left += 1


class _Chain(XmlTarget):
    """Hands each event to all listeners that hear it; an instance has only the methods that any of them has, since lxml looks them up."""

    def __init__(self, listeners: list[XmlTarget]) -> None:
        for event in ("start", "end", "data", "doctype", "comment", "pi"):
            heard = [getattr(listener, event) for listener in listeners if hasattr(listener, event)]
            if heard:
                setattr(self, event, heard[0] if len(heard) == 1 else _tell_all(heard))


def _tell_all(heard: list[object]) -> object:
    def tell(*event: object) -> None:
        for listener in heard:
            listener(*event)  # type: ignore[operator]  # bound methods of targets, whose shapes differ per event

    return tell


def _guard(target: XmlTarget, limits: Limits, doctype: Doctype, where: str) -> XmlTarget:
    listeners = [target]
    if doctype is Doctype.FORBIDDEN:
        listeners.append(_NoDoctype(where))
    if limits.max_xml_depth < _LIBRARY_DEPTH:
        listeners.append(_Shallow(where, limits.max_xml_depth))
    return target if len(listeners) == 1 else _Chain(listeners)


def _judge(error: etree.XMLSyntaxError, where: str) -> Judgement:
    said = (error.msg or "no reason given").split("\n")[0]
    code: int = error.code  # type: ignore[attr-defined]  # the stubs lack it
    if code == etree.ErrorTypes.ERR_RESOURCE_LIMIT and "amplification" in said:
        return Unsafe(Finding.ARCHIVE_BOMB, f"{where} declares entities that multiply into far more text than the file holds")
    if code == etree.ErrorTypes.ERR_ENTITY_LOOP:
        return Unsafe(Finding.ARCHIVE_BOMB, f"{where} declares entities that contain themselves without end")
    if code == etree.ErrorTypes.ERR_RESOURCE_LIMIT or (code in _BUDGET_ERRORS and "too big" in said):
        return TooComplex(f"{where} passes a limit of the XML reader: {said}"[:300])
    if code == etree.ErrorTypes.ERR_UNSUPPORTED_ENCODING and _is_an_encoding(said):
        return Unsupported(f"{where} is in an encoding that the XML reader at hand does not know: {said}"[:300])
    return Corrupt(f"{where} is not well-formed XML: {said}"[:300])


def _is_an_encoding(said: str) -> bool:
    name = encodings.normalize_encoding(said.partition(":")[2].split(",")[0].strip()).lower()
    return name in _ENCODINGS
