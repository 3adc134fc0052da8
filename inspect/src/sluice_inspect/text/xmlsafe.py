"""XML read as a stream, without DTD files, entity expansion, network access or trees in memory."""
# Two parsers see the same bytes: libxml2 the whole document, expat what is declared in front of the root.
# libxml2 calls only the methods that a target has, so that a bare check for well-formedness runs at the speed of C.

from __future__ import annotations

import encodings
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import BinaryIO, Final, Protocol, cast

from lxml import etree

from sluice_inspect.report import Corrupt, Finding, InspectionError, Limits, TooComplex, Unsafe, Unsupported
from sluice_inspect.text.xml_declarations import DeclarationReader
from sluice_inspect.text.xml_encodings import ENCODINGS, EbcdicDocument, ebcdic_of
from sluice_inspect.text.xml_runs import WithoutRuns

_LIBXML2_DEPTH: Final = 256  # libxml2 refuses deeper nesting unless `huge_tree` is on, which it never is here
_DETAIL_MAX: Final = 300
_CHUNK: Final = 64 * 1024
# Names of encodings as the IANA and vendors give them, of which other readers know more.
_OTHER_ENCODING: Final = re.compile(
    r"(?:x_)?(?:(?:windows|win|ibm|cp|dos|iso|mac|koi8|big5|gb|euc|jis|sjis|ks|ksc|tcvn|hp|ucs|utf|ebcdic|tis|dec)_?"
    r"[a-z0-9_]*\d[a-z0-9_]*|(?:x_)?(?:mac|ebcdic|euc|iso|adobe|iscii)_[a-z0-9_]+|user_defined|viscii|johab)"
)


class Doctype(Enum):
    """How a DOCTYPE before the root is treated."""

    FORBIDDEN = "forbidden"  # damage: no writer of this format makes one, and its readers refuse it
    INERT = "inert"  # accepted: its declarations are checked for bombs; nothing that it names is loaded


class XmlTarget:
    """Base of all targets: a subclass adds `start(tag, attributes)`, `end(tag)` or `data(text)`."""

    # Tags and attribute names are `{namespace}local`; text comes in pieces.
    skips_runs = False  # whether of a run of the same empty element two are enough

    def close(self) -> None:
        """End the document; it is called after an error too."""


class StopParsing(Exception):
    """Raised by a target that needs no more of the document."""


class XmlReader(Protocol):
    """Where the bytes come from: an opened source or an archive member."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end."""


def parse_xml(
    stream: XmlReader | BinaryIO,
    limits: Limits,
    *,
    target: XmlTarget | None = None,
    doctype: Doctype = Doctype.INERT,
    declarations: DeclarationReader | None = None,
    where: str = "the document",
) -> bool:
    """Parse one document and return whether its end was reached: False if the target raised `StopParsing`.

    Raise `Corrupt` if it is not well-formed, `Unsupported` for an encoding that only other readers know, `TooComplex`
    past the depth or the 10 MB that one name, attribute, comment or CDATA section may have, `Unsafe` when entities
    multiply, or when an entity or the DTD is an address outside of the document. `InspectionError`s and errors of the
    stream pass through. `declarations` knows afterwards what was declared. `where` names the document in the details.
    """
    declarations = declarations or DeclarationReader(where)
    target = target or XmlTarget()
    watched = _Watched(WithoutRuns(stream.read) if target.skips_runs else stream, declarations)
    guarded = _guard(target, limits, doctype, where)
    parser = etree.XMLParser(
        target=guarded,  # type: ignore[arg-type]  # the stubs ask for all events; lxml takes any of them
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
    )
    try:
        etree.parse(cast("BinaryIO", watched), parser)
    except StopParsing:
        watched.finish()
        _refuse_damage(declarations, where)
        return False
    except etree.XMLSyntaxError as error:
        watched.finish()
        reason = _translate(error, where)
        if watched.is_guessed and isinstance(reason, Corrupt):
            reason = Unsupported(f"{where} is in a code page of EBCDIC that is not known here")
        if doctype is Doctype.FORBIDDEN and declarations.has_doctype:
            reason = _forbidden_doctype(where)
        raise reason from error
    except (LookupError, AssertionError) as error:
        # lxml asserts on some impossible encodings instead of reporting them.
        raise Corrupt(f"{where} cannot be read as XML: {error}"[:_DETAIL_MAX]) from error
    _refuse_damage(declarations, where)
    return True


def _refuse_damage(declarations: DeclarationReader, where: str) -> None:
    # What one parser does not understand may be a declaration to the other.
    if declarations.damage:
        raise Corrupt(f"{where} has a DOCTYPE that is not well-formed: {declarations.damage}"[:_DETAIL_MAX])


class _Watched:
    """Passes a stream on, and its beginning to the reader of declarations. Hides `name` and `seek` of the stream."""

    # With those, lxml would open files itself.

    def __init__(self, stream: XmlReader | BinaryIO, declarations: DeclarationReader) -> None:
        self._stream = stream
        self._declarations = declarations
        self._is_begun = False
        self._ebcdic: EbcdicDocument | None = None
        self.is_guessed = False  # whether it is in EBCDIC, and not known in which

    def read(self, size: int) -> bytes:
        piece = self._read(size)
        if not self._is_begun:
            self._is_begun = True
            if page := ebcdic_of(piece):
                self._ebcdic, self.is_guessed = EbcdicDocument(page[0]), not page[1]
        if self._ebcdic is None:
            return piece
        while not (text := self._ebcdic.encode(piece, final=not piece)) and piece:
            piece = self._read(size)
        return text

    def _read(self, size: int) -> bytes:
        piece = self._stream.read(size)
        if not self._declarations.is_done:
            if piece:
                self._declarations.feed(piece)
            else:
                self._declarations.close()
        return piece

    def finish(self) -> None:
        """Read the declarations to their end, which a parser that gave up may not have reached."""
        self._declarations.flush()
        while not self._declarations.is_done:
            self._read(_CHUNK)


def _guard(target: XmlTarget, limits: Limits, doctype: Doctype, where: str) -> XmlTarget:
    targets = [target]
    if doctype is Doctype.FORBIDDEN:
        targets.append(_DoctypeGuard(where))
    if limits.max_xml_depth < _LIBXML2_DEPTH:
        targets.append(_DepthGuard(where, limits.max_xml_depth))
    return target if len(targets) == 1 else _TargetChain(targets)


class _DoctypeGuard(XmlTarget):
    def __init__(self, where: str) -> None:
        self._where = where

    def doctype(self, _name: str, _public_id: str | None, _system_url: str | None) -> None:
        raise _forbidden_doctype(self._where)


class _DepthGuard(XmlTarget):
    def __init__(self, where: str, depth: int) -> None:
        self._where = where
        self._left = depth

    def start(self, _tag: str, _attributes: Mapping[str, str]) -> None:
        self._left -= 1
        if self._left < 0:
            raise TooComplex(f"{self._where} nests its elements too deeply")

    def end(self, _tag: str) -> None:
        self._left += 1


class _TargetChain(XmlTarget):
    """Passes each event to every target that has a method for it."""

    def __init__(self, targets: list[XmlTarget]) -> None:
        # Set on the instance, and only the events that any target handles: lxml looks methods up and calls what it
        # finds.
        for event in ("start", "end", "data", "doctype", "comment", "pi"):
            handlers = [getattr(target, event) for target in targets if hasattr(target, event)]
            if handlers:
                setattr(self, event, handlers[0] if len(handlers) == 1 else _call_all(handlers))


def _call_all(handlers: list[Callable[..., None]]) -> Callable[..., None]:
    def call(*event: object) -> None:
        for handler in handlers:
            handler(*event)

    return call


def _translate(error: etree.XMLSyntaxError, where: str) -> InspectionError:
    message = (error.msg or "no reason given").split("\n")[0]
    code: int = error.code  # type: ignore[attr-defined]  # the stubs lack it
    if code == etree.ErrorTypes.ERR_RESOURCE_LIMIT and "amplification" in message:
        return Unsafe(
            Finding.ARCHIVE_BOMB, f"{where} declares entities that multiply into far more text than the file holds"
        )
    if code == etree.ErrorTypes.ERR_ENTITY_LOOP:
        return Unsafe(Finding.ARCHIVE_BOMB, f"{where} declares entities that contain themselves without end")
    unfinished = (etree.ErrorTypes.ERR_COMMENT_NOT_FINISHED, etree.ErrorTypes.ERR_CDATA_NOT_FINISHED)
    if code == etree.ErrorTypes.ERR_RESOURCE_LIMIT or (code in unfinished and "too big" in message):
        return TooComplex(f"{where} passes a limit of the XML reader: {message}"[:_DETAIL_MAX])
    if code == etree.ErrorTypes.ERR_UNSUPPORTED_ENCODING and _is_encoding(message):
        return Unsupported(f"{where} is in an encoding that the XML reader does not know: {message}"[:_DETAIL_MAX])
    return Corrupt(f"{where} is not well-formed XML: {message}"[:_DETAIL_MAX])


def _forbidden_doctype(where: str) -> Corrupt:
    return Corrupt(f"{where} begins with a DOCTYPE, which this format forbids and its readers refuse")


def _is_encoding(message: str) -> bool:
    # libxml2 writes "Unsupported encoding: NAME, ..." for names of encodings and for misspelt ones alike.
    name = encodings.normalize_encoding(message.partition(":")[2].split(",")[0].strip()).lower()
    return name in ENCODINGS or _OTHER_ENCODING.fullmatch(name) is not None
