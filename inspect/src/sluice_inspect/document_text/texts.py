"""The text of text files, web pages, mails and Rich Text."""

from __future__ import annotations

import email
import email.header
import email.policy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from lxml import etree

from sluice_inspect.document_text.extent import Extent
from sluice_inspect.office.rtf_ink import rtf_text
from sluice_inspect.office.rtf_tokens import read_tokens
from sluice_inspect.report import Limits
from sluice_inspect.source import MemoryBacked, Source
from sluice_inspect.text.mail_fields import has_many_parameters
from sluice_inspect.text.plaintext import check_text, encoding_of
from sluice_inspect.text.xmlsafe import StopParsing

if TYPE_CHECKING:
    from email.message import Message

_ZEROS: Final = 64  # in a row, from which on a file is not taken for text
_LETTER_BYTES: Final = 4  # the most that an encoding needs for a character
_FIELD_MOST: Final = 1000
_FIELDS: Final = ("From", "To", "Cc", "Date", "Subject")
_BOUNDARIES_MOST: Final = 100
_PARTS_MOST: Final = 2000
_NOT_SHOWN: Final = frozenset({"script", "style", "template", "noscript"})
_BLOCKS: Final = frozenset(
    """
    address article aside blockquote body br caption dd div dl dt fieldset figure footer form h1 h2 h3 h4 h5 h6 header
    hr html li main nav ol p pre section table title tr ul
    """.split()  # noqa: SIM905  (a list of names)
)
_CELLS: Final = frozenset({"td", "th"})
_LINE_FORMS: Final = frozenset({"pre", "textarea"})


def plain_text(source: Source, _limits: Limits, extent: Extent) -> str:
    """Return the beginning of a text file. Raise `Corrupt` if it is no text."""
    return _decoded(source, _LETTER_BYTES * extent.characters)


def page_text(source: Source, _limits: Limits, extent: Extent) -> str:
    """Return what a web page has to be read, hidden or not; its source if there is nothing."""
    markup = _decoded(source, extent.markup_bytes)
    return html_text(markup, extent.characters).strip() or markup


def html_text(markup: str, most: int) -> str:
    """Return the text between the tags of a page, without scripts and styles, a line for each of its blocks.

    Of a text of more than `most` characters, at least `most` are returned.
    """
    words = _Words(most)
    parser = etree.HTMLParser(
        target=words,  # type: ignore[arg-type]  # the stubs ask for all events; lxml takes any of them
        encoding="utf-8",
        no_network=True,
        huge_tree=False,
    )
    try:
        parser.feed(markup.encode("utf-8", "replace"))
        parser.close()
    except (StopParsing, etree.XMLSyntaxError):  # there is enough, or the page is empty
        pass
    return "".join(words.parts)


def mail_text(source: Source, _limits: Limits, extent: Extent) -> str:
    """Return the fields of a mail that readers show, its text, and the names of what is attached."""
    data = source.read_at(0, extent.markup_bytes)
    is_wide = encoding_of(MemoryBacked(data)).startswith(("utf-16", "utf-32"))
    has_many_parts = data.lower().count(b"boundary") > _BOUNDARIES_MOST or data.count(b"\n--") > _PARTS_MOST
    if is_wide or has_many_parts or has_many_parameters(data):
        return _decoded(source, _LETTER_BYTES * extent.characters)
    mail = email.message_from_bytes(data.removeprefix(b"\xef\xbb\xbf").lstrip(), policy=email.policy.compat32)
    lines = [f"{name}: {_field(str(mail[name]))}" for name in _FIELDS if name in mail]
    bodies: dict[str, str] = {}
    attached: list[str] = []
    for part in mail.walk():
        if part.get_filename():
            attached.append(_field(str(part.get_filename())))
        elif part.get_content_maintype() == "text" and part.get_content_subtype() not in bodies:
            bodies[part.get_content_subtype()] = _body(part)
    if attached:
        lines.append(f"Attached: {', '.join(attached)}")
    page = html_text(bodies.get("html", ""), extent.characters)
    body = bodies.get("plain") or page or next(iter(bodies.values()), "")
    return "\n".join([*lines, "", body])


def rich_text(source: Source, limits: Limits, extent: Extent) -> str:
    """Return the text of a Rich Text document, without what is hidden or off its pages."""
    return rtf_text(read_tokens(source.open()), limits, extent.characters)


READERS: Final[Mapping[str, Callable[[Source, Limits, Extent], str]]] = {
    **dict.fromkeys(("csv", "json", "md", "svg", "text", "xml", "yaml"), plain_text),
    "eml": mail_text,
    "html": page_text,
    "rtf": rich_text,
}


def _decoded(source: Source, most: int) -> str:
    head = source.read_at(0, most)
    if source.size > most:  # the last letter may be cut
        head = next((cut for end in range(_LETTER_BYTES) if _is_utf8(cut := head[: len(head) - end])), head)
    with MemoryBacked(head) as text:
        check_text(text, zeros=_ZEROS)
        return head.decode(encoding_of(text), "replace")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _field(value: str) -> str:
    value = " ".join(value[:_FIELD_MOST].split())
    try:
        return str(email.header.make_header(email.header.decode_header(value)))
    except (ValueError, LookupError, email.errors.MessageError):
        return value


def _body(part: Message[str, str]) -> str:
    content = part.get_payload(decode=True)
    if not isinstance(content, bytes):
        return ""
    try:
        return content.decode(part.get_content_charset("latin-1"), "replace")
    except (LookupError, ValueError):
        return content.decode("latin-1")


class _Words:
    """Receives the elements of a page, and keeps the text in them until there is enough."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.parts: list[str] = []
        self._size = 0
        self._open: list[str] = []
        self._muted = 0

    def start(self, tag: str, _attributes: Mapping[str, str]) -> None:
        self._open.append(tag)
        self._muted += tag in _NOT_SHOWN
        if tag in _BLOCKS:
            self._end_line()
        elif tag in _CELLS:
            self._add("\t")

    def end(self, tag: str) -> None:
        if self._open:
            self._muted -= self._open.pop() in _NOT_SHOWN
        if tag in _BLOCKS:
            self._end_line()

    def data(self, text: str) -> None:
        if self._muted:
            return
        if _LINE_FORMS.isdisjoint(self._open[-3:]):
            words = " ".join(text.split())
            text = f"{' ' if text[:1].isspace() else ''}{words}{' ' if words and text[-1:].isspace() else ''}"
        self._add(text)

    def comment(self, _text: str) -> None:
        """Ignore a comment; lxml requires the method."""

    def close(self) -> None:
        """End the page; lxml requires the method."""

    def _end_line(self) -> None:
        if self.parts and not self.parts[-1].endswith("\n"):
            self._add("\n")

    def _add(self, text: str) -> None:
        if text == " " and (not self.parts or self.parts[-1].endswith((" ", "\n"))):
            return
        self.parts.append(text)
        self._size += len(text)
        if self._size > self._most:
            raise StopParsing
