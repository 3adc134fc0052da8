"""What the DOCTYPE of an XML document declares, read by expat: entities outside of the document or that multiply."""
# Nothing outside is ever loaded. expat expands the parameter entities that the document itself declares, so that a
# declaration that is put together is seen as a reader sees it. Reading ends at the root element.

import re
from collections.abc import Iterable, Mapping
from typing import Final
from xml.parsers import expat

from sluice_inspect.report import Corrupt, Finding, TooComplex, Unsafe
from sluice_inspect.text.xml_encodings import DECLARATION_BYTES_MAX, TextDecoder, declaration_ends, encodings_of

# Leading controls and spaces are skipped, as readers of addresses do.
_OUTSIDE: Final = re.compile(
    r"[\x00-\x20]*(?:[a-z][a-z0-9+.-]*:|/|\\)|.*(?:\.|%2e){2}(?:[/\\]|%2f|%5c)"
    r"|[\x00-\x20]*(?:.*(?:[/\\]|%2f|%5c))?(?:\.|%2e){2}[\x00-\x20]*(?:[?#]|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_DROPPED: Final = {ord(character): None for character in "\t\r\n"}  # readers of addresses drop these anywhere
_HOST: Final = re.compile(r"\s*https?://([a-z0-9.-]+)(?::(?:80|443))?/", re.IGNORECASE)
# Whose DTDs documents name by habit. Reading them is no harm: none of these hosts hands out what a stranger wrote.
_KNOWN_HOSTS: Final = frozenset("""
    w3.org apple.com oasis-open.org docbook.org daisy.org idpf.org openoffice.org openebook.org niso.org tei-c.org
    java.sun.com xmlns.jcp.org hibernate.org hibernate.sourceforge.net jasperreports.sourceforge.net
    springframework.org struts.apache.org logging.apache.org jakarta.apache.org tomcat.apache.org ibatis.apache.org
    mybatis.org eclipse.org eclipse.dev jetty.mortbay.org jetty.org testng.org checkstyle.org puppycrawl.com
    my.netscape.com rssboard.org musicxml.org recordare.com dtd.nlm.nih.gov jats.nlm.nih.gov eutils.ncbi.nlm.nih.gov
    ncbi.nlm.nih.gov loc.gov macromedia.com ns.adobe.com wapforum.org docbook.sourceforge.net openmobilealliance.org
    freedesktop.org gtk.org unicode.org xml.cxml.org
""".split())  # fmt: skip  # noqa: SIM905  (a list of names)
_KNOWN_ADDRESSES: Final = frozenset({"file://localhost/System/Library/DTDs/PropertyList.dtd"})
_REFERENCE: Final = re.compile(r"[&%]([^\s;&%#\"'<>]+);")
# Pieces of text that one entity may be made of through others: documents that use entities need a handful.
_PIECES_MAX: Final = 256
# Entities that are made of others: expat goes one level deeper on its stack for each.
_REFERRING_MAX: Final = 500
ATTRIBUTES_MOST: Final = 10_000
"""Declarations of attributes: parsers compare each with all others of its element. DocBook has some thousands."""
_BOMB_ERRORS: Final = frozenset({
    expat.errors.codes[expat.errors.XML_ERROR_RECURSIVE_ENTITY_REF],
    expat.errors.codes["limit on input amplification factor (from DTD and entities) breached"],
})  # fmt: skip


class DeclarationReader:
    """Reads the beginning of one document, fed piece by piece, in every encoding that some reader takes it for.

    `feed` and `close` raise `Unsafe` for entities that multiply and for ones that are addresses outside of the
    document, `Corrupt` for an XML declaration without end. `is_done` is true when no more bytes are needed.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._waiting = bytearray()
        self._fed_bytes = 0
        self._readings: list[_Reading] | None = None

    @property
    def is_done(self) -> bool:
        """Whether the root element was reached."""
        return self._readings is not None and all(reading.is_done for reading in self._readings)

    @property
    def external(self) -> tuple[str, ...]:
        """The names of the entities that are outside of the document."""
        return tuple(dict.fromkeys(name for reading in self._readings or () for name in reading.external))

    @property
    def has_doctype(self) -> bool:
        """Whether there is a DOCTYPE."""
        return any(reading.has_doctype for reading in self._readings or ())

    @property
    def damage(self) -> str:
        """Why no reading of the DOCTYPE came to its end; empty if one did."""
        damages = [reading.damage for reading in self._readings or () if reading.has_doctype]
        return damages[0] if damages and all(damages) else ""

    def feed(self, piece: bytes) -> None:
        """Read on. Some of it may wait for the next call."""
        self._waiting += piece
        # As much again each time: before 2.6, expat reads an unfinished comment from its begin with every piece.
        if len(self._waiting) >= self._fed_bytes:
            self._feed_waiting()

    def close(self) -> None:
        """Read what is left, up to the end of the document."""
        self._feed_waiting(final=True)

    def flush(self) -> None:
        """Read all that was fed so far."""
        self._feed_waiting()

    def _feed_waiting(self, *, final: bool = False) -> None:
        if self._readings is None:
            if not final and not declaration_ends(self._waiting):
                if len(self._waiting) > DECLARATION_BYTES_MAX:
                    raise Corrupt(f"{self._where} begins with an XML declaration that does not end")
                return
            self._readings = [_Reading(encoding, self._where) for encoding in encodings_of(bytes(self._waiting))]
        piece, self._waiting = bytes(self._waiting), bytearray()
        self._fed_bytes += len(piece)
        for reading in self._readings:
            if not reading.is_done:
                reading.feed(piece, final=final)


class OutsideSkipper:
    """Makes a parser read everything outside of the document as if it were empty, and all declarations around it."""

    # Behind a reference to a parameter entity that is not declared, expat ignores all declarations, and other readers
    # do not. So each file outside of the document declares an entity, the DTD last of all (there is always one, as
    # `UseForeignDTD` says): when that is ignored, others were.

    def __init__(self, parser: expat.XMLParserType) -> None:
        self._parser = parser
        self._files = 0
        self.is_complete = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_ALWAYS)
        parser.UseForeignDTD(True)
        parser.ExternalEntityRefHandler = self._on_reference

    def _on_reference(self, context: str | None, *_address: str | None) -> int:
        inner = self._parser.ExternalEntityParserCreate(context)
        if context is not None:  # a reference in the text
            inner.Parse(b"", True)
            return 1
        self.is_complete = False
        self._files += 1
        inner.EntityDeclHandler = self._on_own_entity
        inner.Parse(f"<!ENTITY sluice.{self._files} ''>".encode(), True)
        return 1

    def _on_own_entity(self, *_entity: object) -> None:
        self.is_complete = True


class _RootReached(Exception):
    """The declarations are over."""


class _Reading:
    """One document in one encoding."""

    def __init__(self, encoding: str, where: str) -> None:
        self.is_done = self.has_doctype = False
        self.damage = ""
        self.external: list[str] = []
        self._where = where
        self._texts: dict[str, str] = {}
        self._referring = self._attributes = 0
        self._last = ""
        self._decoder = TextDecoder(encoding)
        parser = self._parser = expat.ParserCreate("utf-8")
        self._outside = OutsideSkipper(parser)
        parser.StartDoctypeDeclHandler = self._on_doctype
        parser.EntityDeclHandler = self._on_entity
        parser.AttlistDeclHandler = self._on_attribute
        parser.StartElementHandler = self._on_root

    def feed(self, piece: bytes, *, final: bool) -> None:
        text = self._decoder.decode(piece, final=final)
        if self.damage:
            self._find_doctype(text, final=final)
            return
        try:
            self._parser.Parse(text.encode("utf-8", "replace"), final)
        except _RootReached:
            self.is_done = True
        except expat.ExpatError as error:
            self.is_done = True
            if error.code in _BOMB_ERRORS:
                raise Unsafe(
                    Finding.ARCHIVE_BOMB, f"{self._where} declares entities that multiply or contain themselves"
                ) from error
            self.damage = str(error)
            if not self.has_doctype:  # another reader may reach it
                self._find_doctype(text, final=final)
        if self.is_done or final:
            self.is_done = True
            if not self._outside.is_complete:
                self.damage = self.damage or "it refers to a parameter entity that it does not declare"
            _refuse_multiplication(self._texts, self._where)

    def _find_doctype(self, text: str, *, final: bool) -> None:
        # expat knows the names of XML 1.0 up to its fourth edition only: without a DOCTYPE, that is harmless.
        self.has_doctype = "<!DOCTYPE" in self._last + text
        self._last = text[-len("<!DOCTYPE") :]
        self.is_done = self.has_doctype or final

    def _on_root(self, _name: str, _attributes: Mapping[str, str]) -> None:
        raise _RootReached

    def _on_attribute(self, *_declaration: object) -> None:
        self._attributes += 1
        if self._attributes > ATTRIBUTES_MOST:
            raise TooComplex(f"{self._where} declares more than {ATTRIBUTES_MOST} attributes")

    def _on_doctype(self, name: str, address: str | None, _public: str | None, _has_subset: object) -> None:
        self.has_doctype = True
        self._refuse_outside(address, f"the DTD of its {_quote(name)}")

    def _on_entity(
        self,
        name: str,
        is_parameter: object,
        text: str | None,
        _base: str | None,
        address: str | None,
        _public: str | None,
        notation: str | None,
    ) -> None:
        if text is None:
            self.external.append(name)
            if notation is None:  # else its reader never loads it
                self._refuse_outside(address, f"its entity {_quote(name)}", may_be_dtd=bool(is_parameter))
            return
        self._texts.setdefault(name, text)
        self._referring += _REFERENCE.search(text) is not None
        if self._referring > _REFERRING_MAX:
            raise Unsafe(
                Finding.ARCHIVE_BOMB, f"{self._where} declares more than {_REFERRING_MAX} entities made of others"
            )

    def _refuse_outside(self, address: str | None, what: str, *, may_be_dtd: bool = True) -> None:
        # Relative names pass, as books in several files use them.
        address = address and address.translate(_DROPPED)
        if address and _OUTSIDE.match(address) and not (may_be_dtd and _is_known(address)):
            raise Unsafe(
                Finding.ARCHIVE_UNSAFE,
                f"{self._where} asks its reader to load {_quote(address)} from elsewhere, as {what}",
            )


def _is_known(address: str) -> bool:
    found = _HOST.match(address)
    if found is None:
        return address in _KNOWN_ADDRESSES
    return found[1].lower().removeprefix("www.") in _KNOWN_HOSTS


def _refuse_multiplication(texts: Mapping[str, str], where: str) -> None:
    # Counts from the entities without references up. Those that refer to each other in a circle are never reached: the
    # parser refuses them.
    references = {name: _REFERENCE.findall(text) for name, text in texts.items()}
    pieces: dict[str, int] = {}
    left: Iterable[str] = list(references)
    while left:
        ready = [name for name in left if all(other in pieces or other not in texts for other in references[name])]
        if not ready:
            return
        for name in ready:
            pieces[name] = max(1, sum(pieces.get(other, 1) for other in references[name]))
            if pieces[name] > _PIECES_MAX and len(references[name]) < pieces[name]:
                raise Unsafe(
                    Finding.ARCHIVE_BOMB,
                    f"{where} declares entities that multiply: {_quote(name)} is made of {pieces[name]} pieces",
                )
        left = [name for name in left if name not in pieces]


def _quote(name: str) -> str:
    return repr(name[:100])
