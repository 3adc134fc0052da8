"""Office Open XML without properties and names of authors, macros, objects and what leads out of the document."""
# ECMA-376 parts 1 and 2, [MS-DOCX], [MS-XLSX], [MS-PPTX]. Parts that need no change are copied as they are packed.

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from lxml import etree

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.fields import flags_of_formula, starts_dde
from sluice_inspect.office.compound import MAGIC
from sluice_inspect.report import Corrupt, Encrypted, TooComplex, Unsupported
from sluice_inspect.sanitise import compound, svg
from sluice_inspect.sanitise.cleaning import Cleaning, NotClean
from sluice_inspect.sanitise.packages import PackageParts, clean_picture, is_picture
from sluice_inspect.sanitise.trees import drop, elements, local, local_name, parse, unwrap, write

_SECONDS: Final = 20.0
_TYPES: Final = "[content_types].xml"
_PACKAGE_MAGIC: Final = b"PK\x03\x04"
_DEPTH_MOST: Final = 2
_HEAD_BYTES: Final = 16

# By the last part of their type, lower case: relations that are taken out, and what they lead to.
_METADATA_RELATIONS: Final = {
    "thumbnail": "thumbnail", "printersettings": "other_metadata", "classificationlabels": "other_metadata",
    "attachedtemplate": "other_metadata",
}  # fmt: skip
_ACTIVE_RELATIONS: Final = {
    **dict.fromkeys(
        ("vbaproject", "wordvbadata", "vbaprojectsignature", "vbaprojectsignatureagile", "vbaprojectsignaturev3",
         "xlmacrosheet", "xlintlmacrosheet", "dialogsheet", "keymapcustomizations", "attachedtoolbars",
         "extensibility", "usercustomization"),
        "macros",
    ),
    **dict.fromkeys(("webextension", "webextensiontaskpanes", "taskpanes"), "scripts"),
    **dict.fromkeys(("control", "activexcontrolbinary", "oleobject", "package"), "embedded_files"),
    **dict.fromkeys(
        ("externallink", "externallinkpath", "connections", "querytable", "attachedtemplate", "mailmergesource",
         "mailmergeheadersource"),
        "external_links",
    ),
}  # fmt: skip
_IMPORTED: Final = "afchunk"  # text that Word imports when it opens the document
_SIGNATURES: Final = "origin"
_CALCULATION: Final = "calcchain"
_PROPERTIES: Final = frozenset({"core-properties", "extended-properties", "custom-properties"})
_COUNTS: Final = frozenset({
    "Pages", "Words", "Characters", "CharactersWithSpaces", "Lines", "Paragraphs", "Slides", "Notes", "HiddenSlides",
    "MMClips",
})  # fmt: skip
# Programs calculate a workbook again, each with other results, if they do not know which one wrote it.
_WRITERS: Final = frozenset({"Application", "AppVersion"})
_PROPERTY_WORDS: Final = {
    **dict.fromkeys(("creator", "lastModifiedBy", "Manager", "Company"), "author"),
    **dict.fromkeys(("created", "modified", "lastPrinted", "TotalTime"), "dates"),
    **dict.fromkeys(("title", "subject", "description", "keywords", "category"), "comments"),
}
_SERVER_PROPERTIES: Final = "http://schemas.microsoft.com/office/2006/metadata/"
_PROPERTY_STORES: Final = ("{6C3C8BC8-F283-45AE-878A-BAB7291924A1}", "{6668398D-A668-4E3E-A5EB-62B293D839F1}")

# Without one of these words, a part has nothing to change, unless it uses a relation that is taken out.
_METADATA_WORDS: Final = re.compile(
    rb"rsid|[aA]uthor|initials|[dD]ate|docId|dataBinding|absPath|userName|refreshedBy|userId|displayName|dT=|dt="
    rb"|created|modified|documentId"
)
# By the family of the document: of workbooks, what a formula needs to call or to refer to anything outside.
_ACTIVE_WORDS: Final = {
    "word": re.compile(rb"instrText|fldSimple|[mM]acro|mailMerge|hlink[CHM]|href\s*="),
    "spreadsheet": re.compile(
        rb"[|#]\w|\[\d|(?:WEBSERVICE|IMAGE|FILTERXML|HYPERLINK|RTD|CALL|REGISTER|INDIRECT|EXEC|DDE)\b"
        rb"|[mM]acro|hlink[CHM]|href\s*=|queryTable|DataMashup|connectionId|Auto_|&#|[\\/\]][^<>]{0,300}!",
        re.IGNORECASE,
    ),
    "presentation": re.compile(rb"[mM]acro|hlink[CHM]|href\s*=|[cC]md\b"),
}
_UNICODE_MARKS: Final = (b"\xfe\xff", b"\xff\xfe")

_AUTHORS: Final = {"author", "initials", "userName", "refreshedBy", "displayName", "userId", "name"}
_NAMED: Final = {"cmAuthor", "author", "person", "userInfo", "presenceInfo"}  # elements of which `name` is a person's
_DATES: Final = frozenset(
    {"date", "dateUtc", "dt", "dT", "created", "modified", "refreshedDate", "refreshedDateIso", "dateTime"}
)
_NEEDED: Final = frozenset({"created", "dateTime"})  # that elements must have
_NO_DATE: Final = "1980-01-01T00:00:00"
_DATED: Final = frozenset({
    "cm", "comment", "commentExtensible", "threadedComment", "pivotCacheDefinition", "reply", "userInfo", "header",
    "task", "event",
})  # fmt: skip

_FIELD_WORDS: Final = {
    **dict.fromkeys(("INCLUDETEXT", "INCLUDEPICTURE", "INCLUDE", "IMPORT", "LINK", "DATABASE", "RD", "HYPERLINK"),
                    "external_links"),
    **dict.fromkeys(("DDE", "DDEAUTO", "PRINT", "ADDIN", "HTMLACTIVEX", "CONTROL", "EMBED"), "actions"),
    "MACROBUTTON": "macros",
}  # fmt: skip
_WITHIN: Final = re.compile(r"\s*HYPERLINK\s+(?:\\[a-z]\s+)*\\l\b", re.IGNORECASE)
_FORMULAS: Final = frozenset({
    "f", "formula", "formula1", "formula2", "definedName", "calculatedColumnFormula", "totalsRowFormula",
})  # fmt: skip
_CALLING: Final = re.compile(r"\[\d+\]|(?<![\w.])(?:HYPERLINK|RTD|CALL|REGISTER(?:\.ID)?|EXEC)\s*\(", re.IGNORECASE)
_AUTOMATIC: Final = re.compile(r"(?:_xlnm\.)?Auto_(?:Open|Close|Activate|Deactivate)", re.IGNORECASE)
_STARTING: Final = re.compile(r"\s*ppaction://(?:program|macro|ole|hlinkfile|hlinkpres|customshow)", re.IGNORECASE)
_ACTIVE_ELEMENTS: Final = {"entryMacro": "macros", "exitMacro": "macros", "mailMerge": "external_links"}
_CLICKS: Final = frozenset({"hlinkClick", "hlinkHover", "hlinkMouseOver"})
# Elements that work without the relation that they name; others go with it.
_WITHOUT_RELATION: Final = frozenset({"blip", "imagedata", "fill", "pageSetup", "stroke", "ddeLink"})
_ALTERNATIVES: Final = frozenset({"Choice", "Fallback"})
# Elements that must not be empty.
_GROUPS: Final = frozenset({
    "oleObjects", "controls", "externalReferences", "hyperlinks", "Choice", "Fallback", "AlternateContent",
    "custDataLst", "definedNames", "ext", "extLst", "control",
})  # fmt: skip
_OUTSIDE: Final = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:|[\\/]{2})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Relation:
    element: etree._Element
    id: str
    type: str
    target: str  # the name of a part, lower case; an address if it is outside
    is_external: bool


def clean(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the document without what is not wanted."""
    if data.startswith(MAGIC):
        raise Encrypted("the document is protected by a password")
    return _Package(data, cleaning).clean()


class _Package:
    """One document that is being cleaned. Names of parts are compared without case."""

    def __init__(self, data: bytes, cleaning: Cleaning) -> None:
        self._data = data
        self._cleaning = cleaning
        self._removed = cleaning.removed
        self._parts = PackageParts(data)
        self._names = {name.lower().lstrip("/"): name for name in self._parts.names}
        if _TYPES not in self._names:
            raise Corrupt("the document does not list the types of its parts")
        self._types = parse(self._read(_TYPES), "the list of types", keeps_comments=False)
        self._declared = self._read_types()
        self._relations = {part: found for part, found in self._read_relations()}  # noqa: C416  (pairs of a generator)
        self._dropped: dict[str, dict[str, str]] = {}  # by part: ids and types of relations
        self._deadline = Deadline(_SECONDS)
        main = next((each.target for each in self._relations.get("", ()) if each.type == "officedocument"), "")
        self._main = main
        declared = self._declared.get(main, "")
        self._is_workbook = "spreadsheet" in declared or "excel" in declared
        named = [pattern for family, pattern in _ACTIVE_WORDS.items() if family in declared]
        self._active_words = named or list(_ACTIVE_WORDS.values())
        if "binary" in declared:
            raise Unsupported("the parts of this workbook are records, which are not changed here")

    def clean(self) -> bytes:
        before = self._reachable()
        if self._cleaning.metadata:
            self._drop_relations(_METADATA_RELATIONS, external=False)
            self._clean_properties()
        if self._cleaning.active_content:
            self._drop_relations(_ACTIVE_RELATIONS, external=True)
            self._drop_unrelated_macros()
        for part in sorted(before | {part for part in self._names if self._is_xml(part)}):
            self._clean_part(part)
        if self._cleaning.metadata and not self._removed and self._parts.has_dates():
            self._removed.add("dates")
        if not self._removed:
            return self._data
        signatures = [each for each in self._relations.get("", ()) if each.type == _SIGNATURES]
        if signatures:
            self._cleaning.is_signed = True
            self._removed.add("signatures")
            for each in signatures:
                self._drop("", each)
        self._write_relations()
        gone = before - self._reachable()
        for part in gone:
            self._parts.drop(self._names[part])
            list_of_it = _relations_of(part)
            if list_of_it in self._names:
                self._parts.drop(self._names[list_of_it])
        self._write_types(gone)
        return self._parts.write()

    def _read(self, part: str) -> bytes:
        return self._parts.read(self._names[part])

    def _read_types(self) -> dict[str, str]:
        extensions, overrides = dict[str, str](), dict[str, str]()
        for each in self._types:
            kind = each.get("ContentType", "").lower()
            if local(each) == "Default":
                extensions[each.get("Extension", "").lower()] = kind
            elif local(each) == "Override":
                overrides[each.get("PartName", "").lower().lstrip("/")] = kind
        return {part: overrides.get(part) or extensions.get(part.rpartition(".")[2], "") for part in self._names}

    def _read_relations(self) -> Iterator[tuple[str, list[_Relation]]]:
        for part in self._names:
            folder, found, name = part.rpartition("_rels/")
            if not found or not name.endswith(".rels") or "/" in name:
                continue
            source = folder + name.removesuffix(".rels")
            root = parse(self._read(part), part, keeps_comments=False)
            yield source, [_relation(each, folder) for each in root if local(each) == "Relationship"]

    def _reachable(self) -> set[str]:
        """Return the parts that relations lead to, without those that are dropped."""
        reached, waiting = set[str](), [""]
        while waiting:
            part = waiting.pop()
            dropped = self._dropped.get(part, {})
            for each in self._relations.get(part, ()):
                is_there = not each.is_external and each.id not in dropped and each.target in self._names
                if is_there and each.target not in reached:
                    reached.add(each.target)
                    waiting.append(each.target)
        return reached

    def _is_xml(self, part: str) -> bool:
        return part != _TYPES and (part.endswith(".xml") or self._declared[part].endswith(("+xml", "/xml")))

    # Relations

    def _drop_relations(self, words: Mapping[str, str], *, external: bool) -> None:
        for part, relations in self._relations.items():
            for each in relations:
                if external and each.type == _IMPORTED:
                    raise NotClean("inseparable")
                word = words.get(each.type) or ("external_links" if external and each.is_external else "")
                if word:
                    self._removed.add(word)
                    self._drop(part, each)

    def _drop(self, part: str, relation: _Relation) -> None:
        self._dropped.setdefault(part, {})[relation.id] = relation.type

    def _drop_unrelated_macros(self) -> None:
        """Drop projects of macros that no relation leads to: readers may find them by their name or type."""
        for part, declared in self._declared.items():
            if part.endswith("vbaproject.bin") or "vbaproject" in declared or "vbadata" in declared:
                self._parts.drop(self._names[part])
                self._removed.add("macros")

    def _write_relations(self) -> None:
        for part, dropped in self._dropped.items():
            name = self._names[_relations_of(part)]
            root = None
            for each in self._relations[part]:
                if each.id in dropped:
                    root = each.element.getparent() if root is None else root
                    drop(each.element)
            if root is not None:
                self._parts.change(name, write(root))

    def _write_types(self, gone: set[str]) -> None:
        is_changed = False
        for each in list(self._types):
            part = each.get("PartName", "").lower().lstrip("/")
            if local(each) == "Override" and (
                part in gone or (part in self._names and not self._parts.has(self._names[part]))
            ):
                drop(each)
                is_changed = True
        if is_changed:
            self._parts.change(self._names[_TYPES], write(self._types))

    # Properties

    def _clean_properties(self) -> None:
        for each in self._relations.get("", ()):
            if each.type not in _PROPERTIES or each.is_external or each.target not in self._names:
                continue
            root = parse(self._read(each.target), each.target)
            kept = _COUNTS | _WRITERS if self._is_workbook else _COUNTS
            gone = [child for child in root if local(child) not in kept]
            if each.type == "custom-properties":
                gone = list(root)
            for child in gone:
                self._removed.add(_PROPERTY_WORDS.get(local(child), "other_metadata"))
                drop(child)
            if gone:
                self._parts.change(self._names[each.target], write(root))

    # Parts

    def _clean_part(self, part: str) -> None:
        if self._deadline.has_passed:
            raise TooComplex("the document has too many parts")
        if not self._parts.has(self._names[part]) or part.endswith(".rels"):
            return
        if not self._is_xml(part):
            self._clean_binary(part)
            return
        data = self._read(part)
        if part.endswith(".svg") or self._declared[part].startswith("image/svg"):
            self._replace(part, data, svg.clean)
            return
        is_telling = (
            part in self._dropped
            or data[:2] in _UNICODE_MARKS
            or (self._cleaning.metadata and (_METADATA_WORDS.search(data) or _SERVER_PROPERTIES.encode() in data))
            or (self._cleaning.active_content and any(each.search(data) for each in self._active_words))
        )
        if not is_telling:
            return
        root = parse(data, part)
        if _Part(root, self._dropped.get(part, {}), self._cleaning).clean():
            self._parts.change(self._names[part], write(root))
            if any(local(each) == "worksheet" for each in (root,)):
                self._drop_calculation_order()

    def _clean_binary(self, part: str) -> None:
        head = self._parts.head(self._names[part], _HEAD_BYTES)
        if self._cleaning.metadata and is_picture(head):
            self._replace(part, self._read(part), clean_picture)
        elif head.startswith(MAGIC):
            self._replace(part, self._read(part), compound.clean)
        elif head.startswith(_PACKAGE_MAGIC) and not self._cleaning.active_content:
            if self._cleaning.depth == _DEPTH_MOST:
                raise TooComplex("documents are nested too deeply")
            try:
                self._replace(part, self._read(part), clean)
            except Corrupt as error:
                raise NotClean("inseparable") from error

    def _replace(self, part: str, data: bytes, cleaner: Callable[[bytes, Cleaning], bytes]) -> None:
        within = Cleaning(self._cleaning.metadata, self._cleaning.active_content, depth=self._cleaning.depth + 1)
        cleaned = cleaner(data, within)
        if within.removed:
            self._removed |= within.removed
            self._parts.change(self._names[part], cleaned)

    def _drop_calculation_order(self) -> None:
        """Drop the list of cells with formulas: one without its formula damages the workbook. Excel makes it again."""
        for each in self._relations.get(self._main, ()):
            if each.type == _CALCULATION:
                self._drop(self._main, each)


def _relations_of(part: str) -> str:
    folder, name = posixpath.split(part)
    return posixpath.join(folder, "_rels", f"{name}.rels")


def _relation(element: etree._Element, folder: str) -> _Relation:
    target = element.get("Target", "")
    is_external = element.get("TargetMode", "").strip().lower() == "external"
    if not is_external:
        path = unquote(target.partition("#")[0])
        target = posixpath.normpath(posixpath.join("/", folder, path)).lstrip("/").lower()
    kind = element.get("Type", "").rpartition("/")[2].lower()
    return _Relation(element, element.get("Id", ""), kind, target, is_external)


class _Part:
    """One part of XML. `dropped` are the relations of it that are taken out."""

    def __init__(self, root: etree._Element, dropped: Mapping[str, str], cleaning: Cleaning) -> None:
        self._root = root
        self._dropped = dropped
        self._cleaning = cleaning
        self._removed = cleaning.removed
        self._is_changed = False
        self._shared = set[str]()  # formulas that several cells share, and that are taken out
        self._lost_sheets: list[int] = []

    def clean(self) -> bool:
        """Change the tree; return whether anything was."""
        for each in list(elements(self._root)):
            if each is not self._root and each.getparent() is None:
                continue
            name = local(each)
            if not name:
                continue
            if self._dropped:
                self._clean_references(each, name)
            if self._cleaning.metadata:
                self._clean_metadata(each, name)
            if self._cleaning.active_content:
                self._clean_active(each, name)
        if self._cleaning.active_content:
            self._clean_fields()
            self._clean_shared()
            self._clean_sheets()
        return self._is_changed

    def _note(self, word: str) -> None:
        self._removed.update({word} if word else ())
        self._is_changed = True

    def _drop(self, element: etree._Element, word: str) -> None:
        """Take an element out, and groups that it leaves empty."""
        self._note(word)
        parent = element.getparent()
        drop(element)
        while parent is not None and local(parent) in _GROUPS and not any(len(each) for each in parent.iter()):
            empty, parent = parent, parent.getparent()
            # One of several alternatives may be empty.
            if local(empty) not in _ALTERNATIVES or parent is None:
                drop(empty)

    # References to what is no longer there

    def _clean_references(self, each: etree._Element, name: str) -> None:
        for attribute, value in list(each.attrib.items()):
            kind = self._dropped.get(str(value))
            if kind is None or not _names_relation(str(attribute)):
                continue
            if name in _WITHOUT_RELATION or (name == "hyperlink" and "wordprocessingml" in str(each.tag)):
                del each.attrib[attribute]
                self._is_changed = True
            elif name == "sheet":
                parent = each.getparent()
                if parent is not None:
                    self._lost_sheets.append([child for child in parent if local(child) == "sheet"].index(each))
                self._is_changed = True
            elif name == "oleObj":
                self._replace_frame(each)
            elif each is not self._root:
                self._drop(each, "")  # what it was is known of the relation
            return

    def _replace_frame(self, each: etree._Element) -> None:
        """Put the picture of an object on a slide in the place of the object."""
        self._is_changed = True
        frame = next((above for above in each.iterancestors() if local(above) == "graphicFrame"), None)
        if frame is None:
            self._drop(each, "")
            return
        picture = next((found for found in frame.iter() if local(found) == "pic"), None)
        if picture is not None:
            frame.addprevious(picture)
        drop(frame)

    # Metadata

    def _clean_metadata(self, each: etree._Element, name: str) -> None:
        if name in {"rsids", "docId", "absPath"} or (name == "person" and local(self._root) == "people"):
            self._drop(each, "author" if name in {"person", "absPath"} else "other_metadata")
            return
        if name == "dataBinding" and each.get(_same_namespace(each, "storeItemID"), "").upper() in _PROPERTY_STORES:
            self._drop(each, "other_metadata")  # Word would show the property, which is empty now, instead of the text
            return
        if each is self._root and str(each.tag).startswith("{" + _SERVER_PROPERTIES) and len(each):
            for child in list(each):
                drop(child)
            self._note("other_metadata")
        if name == "author" and local(self._root) == "comments" and each.text:
            each.text = ""
            self._note("author")
        for attribute, value in list(each.attrib.items()):
            key = local_name(attribute)
            if key.startswith("rsid"):
                del each.attrib[attribute]
                self._note("other_metadata")
            elif key in _AUTHORS and value and (key != "name" or name in _NAMED) and _is_person(name, key):
                each.attrib[attribute] = ""
                self._note("author")
            elif key in _DATES and value != _NO_DATE and (name in _DATED or "word" in str(attribute)):
                if key in _NEEDED:
                    each.attrib[attribute] = _NO_DATE
                else:
                    del each.attrib[attribute]
                self._note("dates")

    # Active content

    def _clean_active(self, each: etree._Element, name: str) -> None:
        if name in _FORMULAS:
            self._clean_formula(each, name)
        elif word := _ACTIVE_ELEMENTS.get(name, ""):
            self._drop(each, word)
        elif name in _CLICKS and _STARTING.match(each.get("action", "")):
            self._drop(each, "actions")
        elif name == "cmd" and each.get("type", "").strip().lower() == "verb":
            each.set("type", "call")
            each.set("cmd", "")
            self._note("actions")
        elif name == "fldSimple" and (word := _word_of_field(each.get(_same_namespace(each, "instr"), ""))):
            self._note(word)
            unwrap(each)
        elif name == "DataMashup" and each is self._root and each.text:
            each.text = ""
            self._note("external_links")
        elif name == "cacheSource" and each.get("connectionId"):
            raise NotClean("inseparable")
        for attribute, value in list(each.attrib.items()):
            self._clean_attribute(each, str(attribute), str(value))

    def _clean_attribute(self, each: etree._Element, attribute: str, value: str) -> None:
        key = local_name(attribute)
        if key == "macro" and value:
            each.attrib[attribute] = ""
            self._note("macros")
        elif (
            (key == "href" and _OUTSIDE.match(value))
            or key == "queryTableFieldId"
            or (key == "tableType" and value == "queryTable")
        ):
            del each.attrib[attribute]
            self._note("external_links")

    def _clean_formula(self, each: etree._Element, name: str) -> None:
        text = "".join(str(piece) for piece in each.itertext())
        if name == "definedName" and _AUTOMATIC.match(each.get("name", "")):
            self._drop(each, "macros")
            return
        flags = flags_of_formula(text) if text else set()
        if not flags and not _CALLING.search(text):
            return
        word = "actions" if "dde" in flags else "external_links"
        parent = each.getparent()
        if name == "definedName":
            self._drop(each, word)
        elif name == "f" and parent is not None and local(parent) == "c":
            if each.get("t") == "shared":
                self._shared.add(each.get("si", ""))
            self._drop(each, word)
        elif text != "#REF!":
            for child in list(each):
                drop(child)
            each.text = "#REF!"
            self._note(word)

    def _clean_shared(self) -> None:
        if not self._shared:
            return
        for each in list(self._root.iter()):
            if local(each) == "f" and each.get("t") == "shared" and each.get("si", "") in self._shared:
                drop(each)

    def _clean_sheets(self) -> None:
        """Take sheets of macros out of the list, and what counts the sheets along."""
        if not self._lost_sheets:
            return
        sheets = [each for each in self._root.iter() if local(each) == "sheet"]
        lost = {number for number in self._lost_sheets if number < len(sheets)}
        if len(lost) == len(sheets):
            raise NotClean("empty")
        for number in lost:
            drop(sheets[number])
        for each in list(self._root.iter()):
            stated = each.get("localSheetId", "") if local(each) == "definedName" else ""
            if stated.isdecimal():
                if int(stated) in lost:
                    self._drop(each, "macros")
                else:
                    each.set("localSheetId", str(int(stated) - sum(gone < int(stated) for gone in lost)))
            elif local(each) == "workbookView":
                for attribute in {"activeTab", "firstSheet"} & set(map(str, each.attrib)):
                    del each.attrib[attribute]

    def _clean_fields(self) -> None:
        """Take the codes out of fields that load or start something. What they last showed stays."""
        open_fields: list[_Field] = []
        for each in list(self._root.iter()):
            name = local(each)
            kind = each.get(_same_namespace(each, "fldCharType"), "") if name == "fldChar" else ""
            if kind == "begin":
                open_fields.append(_Field())
            if open_fields and name in {"fldChar", "instrText"}:
                open_fields[-1].marks.append(each)
                open_fields[-1].text += (each.text or "") if name == "instrText" else ""
            if open_fields and kind == "end":
                word = self._clean_field(open_fields.pop())
                if open_fields:
                    open_fields[-1].word = open_fields[-1].word or word
        for field in open_fields:  # without an end, as in a damaged document
            self._clean_field(field)

    def _clean_field(self, field: _Field) -> str:
        """Take a field apart if it, or one within it, loads or starts something; return what it is then."""
        word = _word_of_field(field.text) or field.word
        if word:
            self._note(word)
            for mark in field.marks:
                drop(mark)
        return word


class _Field:
    """A field of Word: its instruction, and the elements that make it a field."""

    def __init__(self) -> None:
        self.text = ""
        self.word = ""
        self.marks: list[etree._Element] = []


def _word_of_field(instruction: str) -> str:
    """Return what a field does, nothing for one that stays within the document."""
    if starts_dde(instruction):
        return "actions"
    first = instruction.split(maxsplit=1)[:1]
    if not first or _WITHIN.match(instruction):
        return ""
    return _FIELD_WORDS.get(first[0].upper(), "")


def _is_person(element: str, attribute: str) -> bool:
    return attribute in {"author", "initials", "userName", "refreshedBy"} or element in _NAMED


def _names_relation(attribute: str) -> bool:
    namespace, _, name = attribute.rpartition("}")
    return namespace.endswith("/relationships") or name == "relid"


def _same_namespace(element: etree._Element, name: str) -> str:
    return f"{str(element.tag).rpartition('}')[0]}}}{name}"
