"""The closed catalogue of what a report may state: facts, with their units and bounds, and flags."""
# Rules, and replays of them over stored reports, are functions of these names and of nothing else of a report but its
# format, type, size and outcome. A name never changes its meaning. Nothing here loads a parser: the server reads it.

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

FactValue = int | bool | tuple[str, ...]


class Unit(StrEnum):
    """What the value of a fact is: a whole number of something, yes or no, or names of a closed list."""

    COUNT = "count"
    PIXELS = "pixels"
    MILLISECONDS = "milliseconds"
    BYTES = "bytes"
    LEVELS = "levels"
    PERCENT = "per cent"
    TENTHS = "tenths of a degree"
    YES_OR_NO = "yes or no"
    NAMES = "names"


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact: its unit, what it states, when it is absent, and the names it may have if it is a list of them.

    `Format.gives` says which formats have it.
    """

    unit: Unit
    meaning: str
    limits: str = ""
    names: frozenset[str] = frozenset()


AUDIO_CODECS: Final = frozenset(
    """
    aac ac3 adpcm alac amr dts eac3 flac mp1 mp2 mp3 opus pcm speex truehd vorbis wma other
    """.split()  # noqa: SIM905  (a list of quoted names is harder to read)
)
VIDEO_CODECS: Final = frozenset(
    """
    av1 dnxhd dv ffv1 h263 h264 hevc mjpeg mpeg1 mpeg2 mpeg4 msmpeg4 prores rawvideo theora vc1 vp6 vp8 vp9 wmv other
    """.split()  # noqa: SIM905
)
# Programs, scripts and shortcuts by the bytes that they begin with, by their name alone, or as code under another name.
PROGRAM_KINDS: Final = frozenset({"pe", "elf", "mach-o", "java-class", "dex", "shebang", "lnk", "name", "code"})

FACTS: Final[Mapping[str, Fact]] = MappingProxyType({
    "encrypted": Fact(
        Unit.YES_OR_NO,
        "the file, or a member of the archive, cannot be opened without a password",
        "absent if damage hides it",
    ),
    "encrypted_members": Fact(
        Unit.COUNT,
        "members of the archive that cannot be opened without a password",
        "absent if the list of members is encrypted or damaged",
    ),
    "width": Fact(Unit.PIXELS, "width of the picture, its largest frame or page", "of svg if it states it"),
    "height": Fact(Unit.PIXELS, "height of the same", "of svg if it states it"),
    "pixels": Fact(Unit.PIXELS, "width times height", "of svg if it states both"),
    "frames": Fact(Unit.COUNT, "frames of an animation, 1 without one"),
    "animated": Fact(Unit.YES_OR_NO, "viewers show more than one frame, one after the other"),
    "sharpness": Fact(
        Unit.PERCENT,
        "how narrow the edges of letters are beside their height, 0 to 100: about 50 if the blur is as wide as their "
        "strokes; of the first frame or page",
        "absent for pictures of less than 48 pixels, and deep or floating samples",
    ),
    "exposure": Fact(
        Unit.PERCENT,
        "brightness of the brightest twentieth of the same, as the paper of a document, 0 to 100",
        "absent likewise",
    ),
    "skew": Fact(
        Unit.TENTHS,
        "angle between the lines of text and the nearest side of the picture, 0 to 450",
        "absent if no lines of text are found",
    ),
    "text_height": Fact(
        Unit.PIXELS,
        "height of the small letters of most lines of text",
        "absent if no lines of text are found",
    ),
    "pages": Fact(
        Unit.COUNT,
        "pages of the document",
        "of docx, doc, odt as their writer last counted them, absent if it did not",
    ),
    "sheets": Fact(Unit.COUNT, "sheets of the workbook, hidden ones too"),
    "slides": Fact(Unit.COUNT, "slides of the presentation, hidden ones too"),
    "duration_ms": Fact(Unit.MILLISECONDS, "how long the recording plays", "absent if no reader can tell"),
    "has_audio": Fact(Unit.YES_OR_NO, "the recording has sound"),
    "has_video": Fact(Unit.YES_OR_NO, "the recording has moving pictures; a cover is none"),
    "audio_codecs": Fact(Unit.NAMES, "how the sound is encoded", names=AUDIO_CODECS),
    "video_codecs": Fact(Unit.NAMES, "how the moving pictures are encoded", names=VIDEO_CODECS),
    "members": Fact(
        Unit.COUNT,
        "entries that the archive and the archives in it list, as the service's own limit counts them",
        "at least this many if the check stopped early",
    ),
    "depth": Fact(Unit.LEVELS, "1 for an archive, 2 if it holds another one, and so on"),
    "unpacked_bytes": Fact(
        Unit.BYTES, "unpacked bytes of all members at all levels", "at least this many if the check stopped early"
    ),
    "programs": Fact(
        Unit.COUNT, "members of the archive, at all levels, that are programs by their bytes or their name"
    ),
    "scripts": Fact(Unit.COUNT, "members that are scripts likewise"),
    "shortcuts": Fact(Unit.COUNT, "members that are shortcuts likewise"),
    "program_kinds": Fact(Unit.NAMES, "how those were recognised", "absent without any of those", PROGRAM_KINDS),
    "attachments": Fact(Unit.COUNT, "files attached to the document or mail"),
    "flags_complete": Fact(
        Unit.YES_OR_NO,
        "everything was searched that may hold what a flag names; if not, a flag that is absent proves nothing",
    ),
})  # fmt: skip

FLAGS: Final[Mapping[str, str]] = MappingProxyType({
    "encrypted.default": "The workbook is encrypted with the password that Excel tries by itself: it opens without "
    "asking, and is judged as what it decrypts to.",
    "macro": "The document has VBA or Basic macros.",
    "macro.autorun": "A macro runs by itself when the document is opened or closed; only a malware scan finds it.",
    "macro.sheet": "The workbook has a sheet of Excel 4.0 macros.",
    "package": "The document embeds a file as an OLE package, which a double click opens.",
    "object.ole": "The document embeds an OLE object, or a slide starts one by itself.",
    "object.activex": "The document has an ActiveX control.",
    "template.remote": "The document loads its template from another computer.",
    "link.external": "The document loads pictures, objects, data or text from outside of the file, or opens or sends "
    "something there by itself. Links that have to be clicked do not count.",
    "dde": "A field, link or formula asks another program for data (DDE), which can start it.",
    "altchunk": "The document imports a part in another format, such as HTML or RTF, when it is opened.",
    "disguised.rtf": "The content is RTF under the name of another Office format.",
    "disguised.html": "The content is a web page or web archive under the name of an Office format.",
    "type.alias": "The content is a web page or RTF under the name of an old Word or Excel format, which is accepted "
    "since many programs export them so.",
    "formula.csv": "A cell of the table begins as a formula that calls a function or a program.",
    "xinclude": "The XML document includes other documents (XInclude).",
    "script.pdf": "The PDF has JavaScript.",
    "launch.pdf": "An action of the PDF starts a program or opens a file.",
    "program": "The file is a program, a shortcut, or a script that names its interpreter, by its first bytes, "
    "whatever its name is.",
    "attachment.program": "A program is attached to the document or mail.",
    "attachment.script": "A script is attached.",
    "attachment.shortcut": "A shortcut is attached.",
    "attachment.archive": "An archive or disk image is attached.",
    "attachment.document": "A document, picture, recording or text is attached.",
    "attachment.other": "A file of another kind is attached.",
    "script.svg": "The drawing has a script, an event handler, or a link that is one.",
    "script.html": "The web page, or a page of the book, has a script, an event handler, or a link that is one.",
    "smuggling.html": "The web page builds a file in a script and offers it as a download.",
    "archive.program": "A member of the archive is a program, by its bytes or its name.",
    "archive.script": "A member of the archive is a script, by its bytes or its name.",
    "archive.disguised": "A member of the archive has the name of a document, picture or recording and is a program, a "
    "script, a shortcut or a text.",
    "archive.shortcut": "A member of the archive is a shortcut, by its bytes or its name.",
})  # fmt: skip

# What sanitising takes out of a file.
REMOVED: Final[Mapping[str, str]] = MappingProxyType({
    "gps": "where a picture or recording was made",
    "camera": "which device made it, and with which settings",
    "author": "who wrote, changed or commented it, and the owner of the rights",
    "dates": "when it was made, changed or printed",
    "xmp": "metadata in XMP or RDF",
    "thumbnail": "a smaller picture of it, which may show what was cut away",
    "comments": "remarks in its metadata, such as titles, descriptions and keywords",
    "other_metadata": "other metadata, old versions of it, and bytes that no reader needs",
    "macros": "VBA or Basic macros, and sheets of Excel 4.0 macros",
    "scripts": "scripts, event handlers, and links that are scripts",
    "actions": "what a reader does by itself or on a click: start, send, open, ask other programs for data",
    "embedded_files": "files, OLE objects, ActiveX controls, sound and films in it",
    "external_links": "what is loaded or opened from outside of the file",
    "forms": "forms that can be filled in",
    "signatures": "digital signatures, which no longer fit a document that was changed",
    "all_but_pixels": "all that is not visible: the file holds pictures of what it showed",
})  # fmt: skip
