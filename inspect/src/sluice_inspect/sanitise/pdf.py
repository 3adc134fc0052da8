"""PDF without metadata, scripts, actions, embedded files and what leads out of it."""
# ISO 32000-2. The document is rewritten from the objects that it needs: no older version of it is left.

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from typing import Final

import pikepdf
from pikepdf import Array, Dictionary, Name, Object, Stream

from sluice_inspect.budget import Deadline
from sluice_inspect.report import Corrupt, Encrypted, TooComplex
from sluice_inspect.sanitise import jp2, jpeg
from sluice_inspect.sanitise.cleaning import Cleaning, NotClean

_SECONDS: Final = 20.0
_JPEG_START: Final = b"\xff\xd8\xff"
_OBJECTS_MOST: Final = 1_000_000
_LEVELS_MOST: Final = 500_000  # of objects within one object

# Without one of these names, an object has nothing to remove.
_TELLING: Final = re.compile(
    rb"/(?:Metadata|PieceInfo|LastModified|Thumb|Annots?|CreationDate|ModDate|ByteRange|Subtype|M|T|SpiderInfo|IDS|URLS"
    rb"|OpenAction|AA|A|PA|JS|JavaScript|EmbeddedFiles|AF|EF|RF|Collection|XFA|PresSteps|Renditions|URI|F|Ref|OPI"
    rb"|AlternatePresentations|Next|NeedsRendering|Requirements|Perms|DSS)\b"
)
_INFO_WORDS: Final = {
    "/Author": "author", "/CreationDate": "dates", "/ModDate": "dates", "/Title": "comments", "/Subject": "comments",
    "/Keywords": "comments",
}  # fmt: skip
# Actions that stay within the document, and change nothing of it.
_HARMLESS: Final = frozenset({"/GoTo", "/SetOCGState", "/Trans", "/GoToDp", "/GoTo3DView", "/Thread"})
_HARMLESS_NAMES: Final = frozenset({"/NextPage", "/PrevPage", "/FirstPage", "/LastPage"})
_ACTION_WORDS: Final = {
    "/JavaScript": "scripts", "/URI": "external_links", "/GoToR": "external_links", "/GoToE": "external_links",
}  # fmt: skip
_ACTIVE_ANNOTATIONS: Final = frozenset({"/FileAttachment", "/RichMedia", "/3D", "/Movie", "/Sound", "/Screen"})
_CATALOG_METADATA: Final = ("/SpiderInfo",)


def clean(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the document, rewritten without what is not wanted."""
    try:
        with pikepdf.open(io.BytesIO(data), suppress_warnings=True) as document:
            return _Cleaner(document, data, cleaning).run()
    except pikepdf.PasswordError as error:
        raise Encrypted("the document is protected by a password") from error
    except (pikepdf.PikepdfError, RuntimeError, UnicodeDecodeError) as error:
        raise Corrupt(f"the document cannot be read: {error}") from error


class _Cleaner:
    """One document that is being cleaned."""

    def __init__(self, document: pikepdf.Pdf, data: bytes, cleaning: Cleaning) -> None:
        self._document = document
        self._data = data
        self._cleaning = cleaning
        self._removed = cleaning.removed
        self._deadline = Deadline(_SECONDS)

    def run(self) -> bytes:
        document, cleaning = self._document, self._cleaning
        pages = len(document.pages)
        if not pages:
            raise Corrupt("the document has no page")
        signatures: list[Object] = []
        steps: list[Callable[[Object], None]] = []
        if cleaning.metadata:
            self._clean_trailer()
            steps.append(self._clean_metadata)
        if cleaning.active_content:
            self._clean_catalog()
            steps.append(self._clean_active_content)
        for each in self._dictionaries():
            if "/ByteRange" in each and "/Contents" in each:
                signatures.append(each)
                continue
            for step in steps:
                step(each)
        if cleaning.metadata and not self._removed and self._has_older_versions():
            self._removed.add("other_metadata")
        if not self._removed:
            return self._data
        self._remove_signatures(signatures)
        file = io.BytesIO()
        if "/ID" in document.trailer:
            del document.trailer["/ID"]
        document.save(
            file,
            compress_streams=False,
            stream_decode_level=pikepdf.StreamDecodeLevel.none,
            object_stream_mode=pikepdf.ObjectStreamMode.preserve,
            deterministic_id=True,
            fix_metadata_version=False,
            encryption=False,
        )
        return file.getvalue()

    def _dictionaries(self) -> Iterator[Object]:
        """Yield every dictionary that may have something to remove, those of streams and those within others too."""
        for number, each in enumerate(self._document.objects):
            if number >= _OBJECTS_MOST or self._deadline.has_passed:
                raise TooComplex("the document has too many objects")
            if isinstance(each, Stream):
                head: Object = each.stream_dict
                if self._cleaning.metadata:
                    self._clean_picture(each)
            elif isinstance(each, Dictionary | Array):
                head = each
            else:
                continue
            if _TELLING.search(head.unparse(resolved=True)):
                yield from self._within(head)

    def _within(self, top: Object) -> Iterator[Object]:
        waiting, count = [top], 0
        while waiting:
            each = waiting.pop()
            count += 1
            if count > _LEVELS_MOST or self._deadline.has_passed:
                raise TooComplex("an object of the document is too large")
            if isinstance(each, Dictionary):
                yield each
                children = [each[key] for key in list(each.keys())]
            else:
                children = list(each)
            waiting += [child for child in children if isinstance(child, Dictionary | Array) and not child.is_indirect]

    # Metadata

    def _clean_trailer(self) -> None:
        trailer = self._document.trailer
        information = trailer.get("/Info")
        if information is not None:
            if isinstance(information, Dictionary):
                self._removed |= {_INFO_WORDS.get(key, "other_metadata") for key in information.keys()}  # noqa: SIM118
            del trailer["/Info"]
        for key in _CATALOG_METADATA:
            self._remove(self._document.Root, key, "other_metadata")

    def _clean_metadata(self, each: Object) -> None:
        if isinstance(each.get("/Metadata"), Stream):
            self._remove(each, "/Metadata", "xmp")
        if isinstance(each.get("/PieceInfo"), Dictionary):
            self._remove(each, "/PieceInfo", "other_metadata")
            self._remove(each, "/LastModified", "dates")
        kind = each.get("/Type")
        if kind == Name.Page:
            self._remove(each, "/Thumb", "thumbnail")
            self._remove(each, "/LastModified", "dates")
        elif kind == Name.EmbeddedFile and isinstance(parameters := each.get("/Params"), Dictionary):
            self._remove(parameters, "/CreationDate", "dates")
            self._remove(parameters, "/ModDate", "dates")
        elif self._is_annotation(each):
            self._remove(each, "/M", "dates")
            self._remove(each, "/CreationDate", "dates")
            if each.get("/Subtype") != Name.Widget:  # whose /T is the name of a field
                self._remove(each, "/T", "author")

    @staticmethod
    def _is_annotation(each: Object) -> bool:
        return each.get("/Type") == Name.Annot or ("/Rect" in each and "/Subtype" in each)

    def _clean_picture(self, stream: Stream) -> None:
        """Take metadata out of a picture that is embedded as a file of its own format."""
        filters = stream.get("/Filter")
        if isinstance(filters, Array):
            if len(filters) != 1:
                return
            filters = filters[0]
        cleaner = jpeg.clean if filters == Name.DCTDecode else jp2.clean if filters == Name.JPXDecode else None
        if cleaner is None or "/F" in stream:
            return
        raw = stream.read_raw_bytes()
        if cleaner is jpeg.clean and not raw.startswith(_JPEG_START):  # what readers make of that is theirs to say
            return
        found = Cleaning(metadata=True, active_content=False)
        try:
            cleaned = cleaner(raw, found)
        except Corrupt:  # what readers make of a damaged picture is theirs to say
            return
        # Bytes behind the end of a picture are often the end of its line.
        if found.removed and (found.removed != {"other_metadata"} or raw.rstrip() != cleaned):
            stream.write(cleaned, filter=Name(str(filters)))
            self._removed |= found.removed

    def _has_older_versions(self) -> bool:
        """Return whether the file has been added to, or continues behind its end."""
        behind = self._data[self._data.rfind(b"%%EOF") + 5 :] if b"%%EOF" in self._data[-(1 << 20) :] else b""
        is_added_to = "/Prev" in self._document.trailer and not self._document.is_linearized
        return is_added_to or bool(behind.strip(b"\0\t\n\f\r "))

    # Active content

    def _clean_catalog(self) -> None:
        root = self._document.Root
        form = root.get("/AcroForm")
        if isinstance(form, Dictionary) and "/XFA" in form:
            if bool(root.get("/NeedsRendering", False)):
                raise NotClean("inseparable")  # the pages are only made from the form
            self._remove(form, "/XFA", "forms")
        names = root.get("/Names")
        if isinstance(names, Dictionary):
            if "/EmbeddedFiles" in names and "/Collection" in root:
                raise NotClean("empty")  # its page only says that it is a collection of files
            self._remove(names, "/JavaScript", "scripts")
            self._remove(names, "/EmbeddedFiles", "embedded_files")
            self._remove(names, "/Renditions", "actions")
            self._remove(names, "/AlternatePresentations", "actions")
            self._remove(names, "/URLS", "external_links")
        self._remove(root, "/Collection", "embedded_files")
        self._remove(root, "/URI", "external_links")
        self._remove(root, "/Requirements", "scripts")

    def _clean_active_content(self, each: Object) -> None:
        self._remove(each, "/AF", "embedded_files")
        for key in ("/EF", "/RF"):
            if isinstance(each.get(key), Dictionary):
                self._remove(each, key, "embedded_files")
        if isinstance(each.get("/AA"), Dictionary):
            for action in each.AA.as_dict().values():
                self._removed |= self._words_of(action)
            self._remove(each, "/AA", "actions")
        for key in ("/A", "/OpenAction", "/PA", "/Next"):
            self._clean_action(each, key)
        if "/JS" in each and each.get("/S") in {Name.JavaScript, Name.Rendition}:
            self._remove(each, "/JS", "scripts")
        self._remove(each, "/PresSteps", "actions")
        self._clean_annotations(each)
        if isinstance(each.get("/Ref"), Dictionary) and each.get("/Subtype") == Name.Form:
            self._remove(each, "/Ref", "external_links")
        if each.get("/Subtype") == Name.PS:
            raise NotClean("inseparable")  # a program in PostScript is drawn
        if each.get("/Subtype") in {Name.Form, Name.Image}:
            self._remove(each, "/OPI", "external_links")
        if "/Length" in each and "/F" in each and "/Subtype" not in each:
            for key in ("/F", "/FFilter", "/FDecodeParms"):
                self._remove(each, key, "external_links")

    def _clean_action(self, each: Object, key: str) -> None:
        action = each.get(key)
        if isinstance(action, Array) and any(isinstance(one, Dictionary) and "/S" in one for one in action):
            words = set[str]().union(*(self._words_of(one) for one in action))
        elif isinstance(action, Dictionary) and isinstance(action.get("/S"), Name):
            words = self._words_of(action)
        else:
            return
        if words:
            self._removed |= words
            del each[key]

    def _words_of(self, action: Object) -> set[str]:
        """Return what an action is, nothing for one that only shows another place of the document."""
        if not isinstance(action, Dictionary):
            return set()
        kind = action.get("/S")
        if not isinstance(kind, Name):
            return set()
        if str(kind) in _HARMLESS or (kind == Name.Named and str(action.get("/N")) in _HARMLESS_NAMES):
            return set()  # what comes next is an action of its own
        return {_ACTION_WORDS.get(str(kind), "actions")}

    def _clean_annotations(self, each: Object) -> None:
        if self._is_annotation(each) and str(each.get("/Subtype")) in _ACTIVE_ANNOTATIONS:
            for key in ("/FS", "/RichMediaContent", "/RichMediaSettings", "/3DD", "/Movie", "/Sound"):
                self._remove(each, key, "embedded_files")
        annotations = each.get("/Annots")
        if not isinstance(annotations, Array):
            return
        kept = [one for one in annotations if not self._is_active(one)]
        if len(kept) < len(annotations):
            self._removed.add("embedded_files")
            each["/Annots"] = Array(kept)

    @staticmethod
    def _is_active(annotation: Object) -> bool:
        return isinstance(annotation, Dictionary) and str(annotation.get("/Subtype")) in _ACTIVE_ANNOTATIONS

    # Both

    def _remove(self, each: Object, key: str, word: str) -> None:
        if key in each:
            del each[key]
            self._removed.add(word)

    def _remove_signatures(self, signatures: list[Object]) -> None:
        """Take out signatures, which what was changed has made worthless: readers warn of them."""
        if not signatures:
            return
        self._cleaning.is_signed = True
        self._removed.add("signatures")
        for each in signatures:
            for key in list(each.keys()):
                del each[key]
        for each in self._document.objects:
            if isinstance(each, Dictionary) and isinstance(each.get("/V"), Dictionary) and not each.V.keys():
                del each["/V"]
        root = self._document.Root
        for key in ("/Perms", "/DSS"):
            if key in root:
                del root[key]
        form = root.get("/AcroForm")
        if isinstance(form, Dictionary) and "/SigFlags" in form:
            del form["/SigFlags"]
