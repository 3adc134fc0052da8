"""Containers that a scanner must open, each made in memory: those that clamd opens, and those that it does not."""

import base64
import binascii
import bz2
import gzip
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from types import MappingProxyType
from typing import Any, Final

import lz4.frame
import pikepdf
import zstandard

from tests.inspection.threats.compound_files import compound, ole_package, packaged
from tests.inspection.threats.packed_files import ar_member, tarred, zipped

Wrap = Callable[[bytes], bytes]


def docx(data: bytes, name: str = "word/media/image1.png") -> bytes:
    """Return the smallest package that is recognised as a document, with `data` as one of its parts."""
    return zipped({"[Content_Types].xml": b"<Types/>", "word/document.xml": b"<w:document/>", name: data})


def docx_with_package(data: bytes, name: bytes = b"e.txt") -> bytes:
    return docx(packaged(data, name), "word/embeddings/oleObject1.bin")


def pdf_with(data: bytes, name: str = "e.com", **saving: Any) -> bytes:
    """Return a PDF of one page with an attachment, as pikepdf writes it."""
    document = pikepdf.new()
    document.add_blank_page()
    document.attachments[name] = pikepdf.AttachedFileSpec(
        document, data, filename=name, description="", mime_type="", creation_date="", mod_date=""
    )
    return _saved(document, **saving)


def pdf_with_attachment_as_picture(data: bytes) -> bytes:
    """Return a PDF whose attachment is declared as a picture."""
    document = pikepdf.new()
    document.add_blank_page()
    stream = pikepdf.Stream(document, data)
    stream["/Subtype"] = pikepdf.Name("/Image")
    stream["/Params"] = pikepdf.Dictionary(Size=len(data), CheckSum=pikepdf.String("x"))
    document.Root["/Open"] = pikepdf.Dictionary(Type=pikepdf.Name("/Filespec"), EF=pikepdf.Dictionary(F=stream))
    return _saved(document)


def pdf_content(data: bytes) -> bytes:
    """Return a PDF with `data` as the content of its page."""
    document = pikepdf.new()
    document.add_blank_page()
    document.pages[0].obj["/Contents"] = pikepdf.Stream(document, data)
    return _saved(document)


def pdf_script(script: str) -> bytes:
    document = pikepdf.new()
    document.add_blank_page()
    document.Root["/OpenAction"] = pikepdf.Dictionary(S=pikepdf.Name("/JavaScript"), JS=pikepdf.String(script))
    return _saved(document)


def pdf_launch(target: str, holder: str = "/F") -> bytes:
    """Return a PDF that starts `target` when it is opened; with `holder` `/Win` on Windows only."""
    document = pikepdf.new()
    document.add_blank_page()
    where = pikepdf.Dictionary(F=pikepdf.String(target)) if holder == "/Win" else pikepdf.String(target)
    document.Root["/OpenAction"] = pikepdf.Dictionary({"/S": pikepdf.Name("/Launch"), holder: where})
    return _saved(document, object_stream_mode=pikepdf.ObjectStreamMode.generate)


def _saved(document: pikepdf.Pdf, **saving: Any) -> bytes:
    out = io.BytesIO()
    document.save(out, **saving)
    return out.getvalue()


def seven_zipped(data: bytes, coder: bytes = b"\x00", name: str = "b.com") -> bytes:
    """Return a 7z archive of one file and one coder.

    `00` is copy, `040202` bzip2, `040108` deflate, `030401` PPMd.
    """
    packed = {b"\x04\x02\x02": bz2.compress, b"\x04\x01\x08": _deflated}.get(coder, bytes)(data)
    names = b"\0" + name.encode("utf-16-le") + b"\0\0"
    header = b"\x01\x04\x06" + _number(0) + b"\x01\x09" + _number(len(packed)) + b"\0"
    header += b"\x07\x0b\x01\0\x01" + bytes((len(coder),)) + coder + b"\x0c" + _number(len(data)) + b"\0\0"
    header += b"\x05\x01\x11" + _number(len(names)) + names + b"\0\0"
    start = struct.pack("<QQL", len(packed), len(header), zlib.crc32(header))
    return b"7z\xbc\xaf\x27\x1c\0\x04" + struct.pack("<L", zlib.crc32(start)) + start + packed + header


def _number(value: int) -> bytes:
    return b"\xff" + struct.pack("<Q", value)


def _deflated(data: bytes, bits: int = -zlib.MAX_WBITS) -> bytes:
    packer = zlib.compressobj(wbits=bits)
    return packer.compress(data) + packer.flush()


def mail_with(data: bytes, *, encoding: str = "base64") -> bytes:
    message = EmailMessage()
    message["Subject"] = "two attachments"
    message.set_content("see attachments")
    message.add_attachment(b"harmless", maintype="application", subtype="octet-stream", filename="first.bin")
    message.add_attachment(data, maintype="application", subtype="octet-stream", filename="second.bin", cte=encoding)
    return message.as_bytes()


def rtf_object(data: bytes, between: bytes = b"", name: bytes = b"e.txt") -> bytes:
    """Return an RTF document with a packaged file; `between` is inserted after every two digits."""
    body = ole_package(data, name)
    object1 = struct.pack("<LLL", 0x501, 2, 8) + b"Package\0" + bytes(8) + body
    digits = object1.hex().encode()
    spread = between.join(digits[at : at + 2] for at in range(0, len(digits), 2))
    return b"{\\rtf1 hello {\\object\\objemb{\\*\\objclass Package}{\\*\\objdata " + spread + b"}}}"


def svg_with(data: bytes) -> bytes:
    address = b"data:application/zip;base64," + base64.b64encode(data)
    return b'<svg xmlns="http://www.w3.org/2000/svg"><image href="%b"/></svg>' % address


def address(data: bytes) -> bytes:
    """Return an address with `data`, each byte of it behind a percent sign."""
    return b"data:application/zip," + b"".join(b"%%%02x" % byte for byte in data)


def referred(text: bytes) -> bytes:
    """Return a text as character references."""
    return b"".join(b"&#%d;" % byte for byte in text)


def uuencoded(data: bytes) -> bytes:
    lines = b"".join(binascii.b2a_uu(data[at : at + 45]) for at in range(0, len(data), 45))
    return b"begin 644 a.zip\n" + lines + b"`\nend\n"


def word_xml(data: bytes) -> bytes:
    return (
        b'<?xml version="1.0"?><w:wordDocument xmlns:w="http://schemas.microsoft.com/office/word/2003/wordml">'
        b'<w:binData w:name="oledata.mso">' + base64.b64encode(data) + b"</w:binData></w:wordDocument>"
    )


def ar(*members: bytes) -> bytes:
    return b"!<arch>\n" + b"".join(members)


def deb(data: bytes, packed: Callable[[bytes], bytes] = lzma.compress) -> bytes:
    """Return a Debian package that installs one file."""
    control = ar_member(b"control.tar.gz", tarred({"control": b"Package: a\n"}, "w:gz"))
    return ar(
        ar_member(b"debian-binary", b"2.0\n"), control, ar_member(b"data.tar.xz", packed(tarred({"b.com": data})))
    )


def polyglot(data: bytes) -> bytes:
    """Return a GIF that is also a ZIP archive."""
    picture = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;"
    return picture + zipped({"b.com": data})


REQUIRED_CONTAINERS: Final[Mapping[str, tuple[str, Wrap]]] = MappingProxyType({
    "plain": ("e.com", bytes),
    "with text": ("e.txt", lambda data: b"some text\n" + data + b"\nmore text\n"),
    "zip": ("e.zip", lambda data: zipped({"a.txt": b"a", "b.com": data})),
    "zip in zip": ("e.zip", lambda data: zipped({"in.zip": zipped({"b.com": data})})),
    "tar.gz": ("e.tar.gz", lambda data: tarred({"a": b"a", "b.com": data}, "w:gz")),
    "docx": ("e.docx", docx),
    "eml, base64": ("e.eml", mail_with),
    "PDF attachment": ("e.pdf", pdf_with),
    "7z": ("e.7z", seven_zipped),
    "gz": ("e.gz", gzip.compress),
    "OLE package": ("e.docx", docx_with_package),
    "polyglot": ("e.gif", polyglot),
})  # fmt: skip
"""Containers that every scanner must open, with a file name for each."""

MISSED_BY_CLAMD: Final[Mapping[str, Wrap]] = MappingProxyType({
    "PDF attachment": pdf_with,
    "PDF attachment, objects in streams": lambda data: pdf_with(data, object_stream_mode=pikepdf.ObjectStreamMode.generate),
    "PDF attachment, empty password": lambda data: pdf_with(data, encryption=pikepdf.Encryption(owner="x", user="", R=6)),
    "PDF attachment declared as a picture": pdf_with_attachment_as_picture,
    "zip in PDF attachment": lambda data: pdf_with(zipped({"b.com": data})),
    "PDF attachment in zip": lambda data: zipped({"a.pdf": pdf_with(data)}),
    "PDF in PDF attachment": lambda data: pdf_with(pdf_with(data), "a.pdf"),
    "PDF attachment in mail": lambda data: mail_with(pdf_with(data)),
    "PDF attachment in OLE package": lambda data: docx_with_package(pdf_with(data)),
    "zip, lzma": lambda data: zipped({"b.com": data}, zipfile.ZIP_LZMA),
    "lzma alone": lambda data: lzma.compress(data, format=lzma.FORMAT_ALONE),
    "second stream of bzip2": lambda data: bz2.compress(b"first") + bz2.compress(data),
    "zip after gzip": lambda data: gzip.compress(b"first") + zipped({"b.com": data}),
    "Zstandard": lambda data: zstandard.compress(data + bytes(9999)),
    "second frame of Zstandard": lambda data: zstandard.compress(b"first") + zstandard.compress(data),
    "LZ4": lambda data: bytes(lz4.frame.compress(data + bytes(9999))),
    "tar.zst": lambda data: zstandard.compress(tarred({"b.com": data})),
    "7z, bzip2": lambda data: seven_zipped(data, b"\x04\x02\x02"),
    "7z, deflate": lambda data: seven_zipped(data, b"\x04\x01\x08"),
    "RTF object, digits apart": lambda data: rtf_object(data, b"{\\x}"),
    "RTF object, digits between control words": lambda data: rtf_object(data, b"\\par "),
    "picture in SVG": svg_with,
    "object in a Word document as XML": lambda data: word_xml(packaged(data)),
})  # fmt: skip
"""Containers in which clamd 1.4.6 misses a threat; Sluice opens them for it."""

OPENED_HERE: Final[Mapping[str, Wrap]] = MappingProxyType({
    "Debian package": deb,
    "Debian package, Zstandard": lambda data: deb(data, zstandard.compress),
    "Debian package in gzip": lambda data: gzip.compress(deb(data)),
    "Debian package in zip": lambda data: zipped({"a.deb": deb(data)}),
    "Debian package in tar": lambda data: tarred({"a.deb": deb(data)}),
    "Debian package in PDF attachment": lambda data: pdf_with(deb(data)),
    "ar, gzip": lambda data: ar(ar_member(b"a", b"odd"), ar_member(b"b.gz/", gzip.compress(data))),
    "ar, gzip, long name of BSD": lambda data: ar(ar_member(b"#1/6", b"b.gz\0\0" + gzip.compress(data))),
    "ar, gzip that begins as a long name": lambda data: ar(ar_member(b"#1/6", gzip.compress(data))),
    "zlib": zlib.compress,
    "zlib, further stream, small window": lambda data: zlib.compress(b"first") + _deflated(data, 9),
    "zlib in zip": lambda data: zipped({"a": zlib.compress(data)}),
    "address in SVG": lambda data: (
        b"<svg xmlns='http://www.w3.org/2000/svg'><image href='" + address(data) + b"'/></svg>"
    ),
    "address in HTML": lambda data: b'<html><a download href="' + address(data) + b'">a</a>',
    "address in HTML, without quotes": lambda data: b"<html><a href=" + address(data) + b" download>a</a>",
    "address in HTML, as references": lambda data: b"<html><a href='" + referred(address(data)) + b"'>a</a>",
    "address in HTML, in lines": lambda data: b"<html><a href='" + address(data).replace(b"2", b"\n2") + b"'>a</a>",
    "address in srcdoc": lambda data: (
        b"<html><iframe srcdoc='<a href=" + referred(b'"' + referred(address(data)) + b'"') + b">a</a>'></iframe>"
    ),
    "address in XML": lambda data: b'<r><a href="' + address(data) + b'"/></r>',
    "address in XML in UTF-16": lambda data: ('<r a="' + address(data).decode() + '"/>').encode("utf-16"),
    "address in JSON": lambda data: b'{"a": "' + address(data).replace(b"%", b"\\u0025") + b'"}',
    "address in a style sheet": lambda data: b"a:hover{background:url(" + address(data) + b")}",
    "address in Markdown": lambda data: b"# a\n[a](" + address(data) + b")\n",
    "address in Markdown, in UTF-16": lambda data: f"# a\n[a]({address(data).decode()})\n".encode("utf-16"),
    "address in a text": lambda data: b"See <" + address(data).replace(b"data:application/zip,", b"DATA:,") + b">.",
    "address with a type of its own": lambda data: b"<html><a href='" + address(data).replace(b"zip", b"a b") + b"'>",
    "base64 in a style sheet": lambda data: b"a{b:url(data:a/b;base64," + base64.b64encode(data) + b")}",
    "uuencode in a text": lambda data: b"A text.\n" + uuencoded(data),
    "uuencode in a text in zip": lambda data: zipped({"a.txt": b"A text.\n" + uuencoded(data)}),
    "ar in ar": lambda data: ar(ar_member(b"a", ar(ar_member(b"b.gz", gzip.compress(data)) + b"\n"))),
})  # fmt: skip
"""Containers that Sluice opens as far as clamd does not."""

OPENED_BY_CLAMD: Final[Mapping[str, Wrap]] = MappingProxyType({
    "compound file, stream": lambda data: compound({"Contents": data}),
    "compound file, large stream": lambda data: compound({"Contents": bytes(9000) + data}),
    "OLE package": packaged,
    "zip in OLE package": lambda data: packaged(zipped({"b.com": data})),
    "RTF object": rtf_object,
    "attachment of an Outlook message": lambda data: compound({"__attach_version1.0_#00000000/__substg1.0_37010102": data}),
    "PDF, content of a page": pdf_content,
})  # fmt: skip
"""Further containers that both clamd and Sluice open."""
