"""Outlook items (.msg, [MS-OXMSG]). Blank without a subject, an attachment with content, and a visible body."""
# Items that are not mail (appointments, contacts, tasks) have fields of their own and are never blank.

import io
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sluice_inspect.format import Examination, Family, Format, named
from sluice_inspect.office.compound import (
    MAGIC,
    CompoundFile,
    Entry,
    Tree,
    check_container,
    content_end,
    is_compound_document,
    make_compound,
)
from sluice_inspect.office.rtf_ink import has_rtf_ink
from sluice_inspect.office.rtf_tokens import read_tokens
from sluice_inspect.programs import HEAD_BYTES, attachment_flag
from sluice_inspect.report import Corrupt, FactSheet, Limits, TooComplex
from sluice_inspect.source import Source
from sluice_inspect.subject import Subject
from sluice_inspect.text.html_ink import has_visible_html
from sluice_inspect.text.plaintext import INVISIBLE

# Property numbers ([MS-OXPROPS]).
_CLASS: Final = 0x001A
_SUBJECTS: Final = (0x0037, 0x0E1D, 0x0070)
_BODY, _RTF, _HTML = 0x1000, 0x1009, 0x1013
_MAIL: Final = "ipm.note"
_MAX_BODY_BYTES: Final = 32 * 1024**2
_ATTACHED: Final = "__substg1.0_3701"

# Property types ([MS-OXCDATA] 2.11.1).
_TEXT, _TEXT_8_BITS, _BINARY, _OBJECT = 0x001F, 0x001E, 0x0102, 0x000D
_KNOWN_TYPES: Final = frozenset(
    {2, 3, 4, 5, 6, 7, 10, 11, _OBJECT, 0x14, _TEXT_8_BITS, _TEXT, 0x40, 0x48, 0xFB, 0xFD, 0xFE, _BINARY}
)
_LONG_TYPES: Final = frozenset({_OBJECT, _TEXT_8_BITS, _TEXT, 0x48, 0xFB, _BINARY})  # their values have own streams
_MANY: Final = 0x1000  # added to the type of properties with many values
# The stated length of a text may count the terminating zero that its stream lacks.
_SLACK: Final = {_TEXT: 2, _TEXT_8_BITS: 1}

_LIST: Final = "__properties_version1.0"
_LIST_ENTRY: Final = struct.Struct("<HHLLL")
# Bytes in front of the list: in the file itself, in a message within it, in a recipient or an attachment.
_ROOT_HEADER, _INNER_HEADER, _PART_HEADER = 32, 24, 8
_INNER_MESSAGE: Final = f"__substg1.0_3701{_OBJECT:04x}"
_ZEROS: Final = re.compile(rb"\0{16}")
_MAX_DEPTH: Final = 32

_RTF_HEADER: Final = struct.Struct("<LLLL")
_COMPRESSED: Final = 0x75465A4C
_UNCOMPRESSED: Final = 0x414C454D
_MAX_RTF_BYTES: Final = 32 * 1024**2
_WINDOW: Final = 4096
# The dictionary that every compressed text begins with ([MS-OXRTFCP] 2.1.2.1).
_PRESET: Final = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans SerifSymb"
    rb"olArialTimes New RomanCourier{\colortbl\red0\green0\blue0" b"\r\n" rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)  # fmt: skip
_ATTACHED_NAMES: Final = ("__substg1.0_3707001f", "__substg1.0_3704001f")
_ATTACHED_NAMES_8_BITS: Final = ("__substg1.0_3707001e", "__substg1.0_3704001e")
_ATTACHED_CONTENT: Final = "__substg1.0_37010102"


def _examine(source: Source, limits: Limits) -> Examination:
    container, measures = check_container(source)
    properties = _check_item(container, container.root)
    measures = {**measures, "properties": properties, "attachments": sum(1 for _ in _attachments(container.root))}
    return Examination(measures, lambda: _blank(container, limits))


def _check_item(container: CompoundFile, item: Entry, *, depth: int = 0) -> int:
    """Return how many properties a message and all in it have. Raises `Corrupt` where they are not as listed."""
    if depth > _MAX_DEPTH:
        raise TooComplex(f"the message nests more than {_MAX_DEPTH} messages within messages")
    count = _check_properties(container, item, _INNER_HEADER if depth else _ROOT_HEADER)
    for name, part in item.children.items():
        if part.is_stream or not name.startswith(("__recip_version1.0_", "__attach_version1.0_")):
            continue
        count += _check_properties(container, part, _PART_HEADER)
        within = part.children.get(_INNER_MESSAGE)
        if within is not None and _LIST in within.children:
            count += _check_item(container, within, depth=depth + 1)
    return count


def _check_properties(container: CompoundFile, storage: Entry, header: int) -> int:
    listed = storage.stream(_LIST)
    if listed is None or listed.size < header:
        raise Corrupt("the message is damaged: a list of its properties is missing or cut")
    data = container.read(listed)[header:]
    entries = data[: len(data) // _LIST_ENTRY.size * _LIST_ENTRY.size]
    for property_type, number, _, size, _ in _LIST_ENTRY.iter_unpack(entries):
        if property_type & ~_MANY not in _KNOWN_TYPES:
            raise Corrupt(f"the message is damaged: its property {number:#06x} is of a type that does not exist")
        if property_type in _LONG_TYPES or property_type & _MANY:
            _check_long_property(container, storage, property_type, number, size)
    return len(entries) // _LIST_ENTRY.size


def _check_long_property(container: CompoundFile, storage: Entry, property_type: int, number: int, size: int) -> None:
    entry = storage.children.get(f"__substg1.0_{number:04x}{property_type:04x}")
    if entry is None:
        raise Corrupt(f"the message is damaged: its property {number:#06x} is listed, but missing")
    if property_type & _MANY or not entry.is_stream:
        return
    if not 0 <= size - entry.size <= _SLACK.get(property_type, 0):
        raise Corrupt(f"the message is damaged: its property {number:#06x} is not as long as stated")
    if property_type in _SLACK and entry.size and _ZEROS.search(container.read(entry)):
        raise Corrupt(f"the message is damaged: its text {number:#06x} has zeros in it")
    if number == _RTF and entry.size and entry.size <= _MAX_RTF_BYTES:
        unpack_rtf(container.read(entry))


def _blank(container: CompoundFile, limits: Limits) -> str | None:
    mail = container.root
    if not _text(container, mail, _CLASS).lower().startswith(_MAIL):
        return None
    if any(_text(container, mail, number).strip(INVISIBLE) for number in (*_SUBJECTS, _BODY)):
        return None
    if any(_has_content(each) for each in _attachments(mail)) or _has_formatted_ink(container, mail, limits):
        return None
    return "the message has no subject, no attachment, and a body that shows nothing"


def _text(container: CompoundFile, mail: Entry, number: int) -> str:
    for property_type, encoding in ((_TEXT, "utf-16-le"), (_TEXT_8_BITS, "cp1252")):
        entry = _property_stream(mail, number, property_type)
        if entry is not None:
            text = container.read(entry, _MAX_BODY_BYTES).decode(encoding, "replace")
            # A text that is too large to read whole is visible, whatever its beginning is.
            return text if entry.size <= _MAX_BODY_BYTES else text + "…"
    return ""


def message_text(container: CompoundFile) -> tuple[str, str, str]:
    """Return the subject of a message, its text, and its text as a web page; empty where it has none."""
    subject = next(filter(None, (_text(container, container.root, number) for number in _SUBJECTS)), "")
    page = _property_stream(container.root, _HTML, _BINARY, _TEXT_8_BITS, _TEXT)
    markup = b"" if page is None else container.read(page, _MAX_BODY_BYTES)
    encoding = "utf-16-le" if page is not None and page.name.lower().endswith("001f") else "latin-1"
    body = _text(container, container.root, _BODY)
    return subject.strip("\0"), body.strip("\0"), markup.decode(encoding, "replace")


def _has_content(attachment: Entry) -> bool:
    return any(
        name.startswith(_ATTACHED) and (not entry.is_stream or entry.size)
        for name, entry in attachment.children.items()
    )


def _has_formatted_ink(container: CompoundFile, mail: Entry, limits: Limits) -> bool:
    html = _property_stream(mail, _HTML, _BINARY, _TEXT_8_BITS, _TEXT)
    if html is not None:
        encoding = "utf-16-le" if html.name.lower().endswith("001f") else "latin-1"
        if html.size > _MAX_BODY_BYTES or has_visible_html([container.read(html).decode(encoding, "replace")], limits):
            return True
    rtf = _property_stream(mail, _RTF, _BINARY)
    if rtf is None:
        return False
    if rtf.size > _MAX_BODY_BYTES:
        return True
    return has_rtf_ink(read_tokens(io.BytesIO(unpack_rtf(container.read(rtf)))), limits)


def _property_stream(storage: Entry, number: int, *types: int) -> Entry | None:
    """Return the stream of a property, in the first of these types in which there is one with content."""
    return storage.stream(*(f"__substg1.0_{number:04x}{each:04x}" for each in types))


def _attachments(message: Entry) -> Iterator[Entry]:
    return (
        entry
        for name, entry in message.children.items()
        if name.startswith("__attach_version1.0_") and not entry.is_stream
    )


def unpack_rtf(packed: bytes) -> bytes:
    """Return the Rich Text of a message ([MS-OXRTFCP]). Raises `Corrupt` when it is cut or its checksum is wrong."""
    if len(packed) < _RTF_HEADER.size:
        raise Corrupt("the message is damaged: its formatted text is cut")
    size, unpacked, compression, checksum = _RTF_HEADER.unpack_from(packed)
    content = packed[_RTF_HEADER.size : size + 4]
    if compression == _UNCOMPRESSED:
        return content
    if compression != _COMPRESSED or zlib.crc32(content, 0xFFFFFFFF) ^ 0xFFFFFFFF != checksum:
        raise Corrupt("the message is damaged: the checksum of its formatted text is wrong")
    return _decompress(content, min(unpacked, _MAX_RTF_BYTES))


def _decompress(content: bytes, most: int) -> bytes:
    text, at = bytearray(_PRESET), 0
    while at < len(content) and len(text) - len(_PRESET) < most:
        flags, at = content[at], at + 1
        for bit in range(8):
            if flags >> bit & 1:
                reference = int.from_bytes(content[at : at + 2], "big")
                at += 2
                distance = (len(text) - (reference >> 4)) % _WINDOW
                if not distance:  # a reference to the write position marks the end
                    return bytes(text[len(_PRESET) :])
                for _ in range((reference & 0xF) + 2):
                    text.append(text[-distance] if distance <= len(text) else 0x20)
            else:
                text += content[at : at + 1]
                at += 1
    return bytes(text[len(_PRESET) :])


Properties = Mapping[int, "str | bytes | int"]  # texts, binary data and numbers by the number of their property


def make_message(
    properties: Properties, attachments: Sequence[Properties] = (), *, item_class: str = "IPM.Note"
) -> bytes:
    """Return a message of a class with these properties, and attachments with theirs."""
    parts = {f"__attach_version1.0_#{number:08X}": make_storage(each, 8) for number, each in enumerate(attachments)}
    return make_compound({**make_storage({_CLASS: item_class, **properties}, 32), **parts})


def make_storage(properties: Properties, header: int) -> dict[str, "bytes | Tree"]:
    """Return the streams of an item: the list of its properties, after `header` zero bytes, and long values."""
    listed, streams = bytes(header), {}
    for number, value in properties.items():
        if isinstance(value, int):
            listed += struct.pack("<HHLQ", 3, number, 6, value)
            continue
        property_type, content = (_TEXT, value.encode("utf-16-le")) if isinstance(value, str) else (_BINARY, value)
        streams[f"__substg1.0_{number:04X}{property_type:04X}"] = content
        size = len(content) + (2 if property_type == _TEXT else 0)
        listed += struct.pack("<HHLLL", property_type, number, 6, size, 0)
    return {_LIST: listed, **streams}


def _facts(subject: Subject, sheet: FactSheet) -> None:
    container = subject.source.cached(CompoundFile)
    attachments = [
        entry
        for name, entry in container.root.children.items()
        if name.startswith("__attach_version1.0_") and not entry.is_stream
    ]
    sheet.facts["attachments"] = len(attachments)
    for entry in attachments:
        content = entry.stream(_ATTACHED_CONTENT)
        head = b"" if content is None else container.read(content, HEAD_BYTES)
        sheet.flags.add(attachment_flag(_attached_name(container, entry), head))


def _attached_name(container: CompoundFile, attachment: Entry) -> str:
    for names, encoding in ((_ATTACHED_NAMES, "utf-16-le"), (_ATTACHED_NAMES_8_BITS, "latin-1")):
        entry = attachment.stream(*names)
        if entry is not None:
            return container.read(entry, 1024).decode(encoding, "replace").rstrip("\0")
    return ""


FORMAT: Final = Format(
    name="msg",
    family=Family.DOCUMENT,
    content_type="application/vnd.ms-outlook",
    extensions=frozenset({"msg", "oft"}),
    may_be_text=True,
    begins=(MAGIC,),
    matches=lambda source: is_compound_document(source, "msg"),
    examine=_examine,
    facts=_facts,
    own_facts=frozenset({"attachments"}),
    sample=lambda: make_message({0x0037: "Sluice", 0x1000: "One line."}),
    names=named("Outlook (MSG)", "msg"),
    content_end=content_end,
)
