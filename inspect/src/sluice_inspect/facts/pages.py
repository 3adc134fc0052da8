"""What web pages and the pages of books do: scripts, files that are built in a script, content of other machines."""
# Readers disagree on where the elements and attributes of a page are, so that none of them is followed: what looks like
# an attribute anywhere counts, with its character references resolved, and so does what internal entities stand for.

import html
import re
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.report import FactSheet
from sluice_inspect.subject import Subject
from sluice_inspect.text.late_pattern import LatePattern
from sluice_inspect.text.plaintext import read_text

_READ_BYTES: Final = 16 * 1024**2

_SCRIPT: Final = LatePattern(
    r"<(?:[^\s<>/=:\"']{1,64}:)?script[\s>/]|[\s\"'/]on[a-z]{3,30}\s{0,20}="
    r"|(?:=|url\()\s{0,20}[\"']?[\x00-\x20]{0,20}(?:javascript|vbscript)\s{0,20}:"
    r"|[\s\"'/](?:src|href|data|action|formaction)\s{0,20}=\s{0,20}[\"']?[\x00-\x20]{0,20}"
    r"data:(?:text/(?:html|xml)|application/(?:xhtml\+)?xml|[^\s,;<>\"']{0,40}script)"
    r"|<(?:iframe|frame|object|embed)\b[^<>]{0,2000}?[=\"'\s]data:image/svg",
    re.IGNORECASE,
)
# Without one of these words, only an event handler is a script.
_SCRIPT_WORDS: Final = ("script", "data:")
_HANDLER: Final = re.compile(r"on(?<=[\s\"'/]on)[a-z]{3,30}\s{0,20}=")
_BUILT: Final = re.compile(r"\bnew\s{1,10}(?:Blob|File|MozBlobBuilder)\b|\batob\s{0,10}\(|fromCharCode|Uint8Array")
_OFFERED: Final = re.compile(
    r"createObjectURL|msSaveOrOpenBlob|msSaveBlob|\.download\b"
    r"|setAttribute\(\s{0,10}[\"']download|\[[\"']download[\"']\]"
)
# Schemes of the network, those that start a program with what follows, any other with a server, or its name alone.
_REMOTE: Final = (
    r"\s{0,20}(?:(?:https?|ftps?|sftp|smb|its|mk|mhtml|jar|jnlp|feed|view-source|hcp|shell|onenote|search|search-ms"
    r"|ms-(?!appx|appdata)[a-z-]{1,40}):|[\\/]{2}|file:[\\/]{2}(?:[\\/]{2}|[^\\/\s])"
    r"|(?!(?:file|filesystem|chrome|resource|res|app|asset|content|kindle|epub|ms-appx|ms-appdata"
    r"|[a-z-]{1,20}extension):)"
    r"[a-z][a-z0-9+.-]{1,40}://)"
)
_QUOTE: Final = r"(?:[\"']|&quot;|&apos;)"
_GAP: Final = r"(?:\s|/\*[^*]{0,200}+(?:\*(?!/)[^*]{0,200}+){0,9}\*/|(?!)){0,20}+"  # space and comments of a style
_LOADING_STYLE: Final = LatePattern(
    rf"@import{_GAP}(?:url\()?\s{{0,20}}{_QUOTE}?{_REMOTE}|\burl\(\s{{0,20}}{_QUOTE}?{_REMOTE}"
    rf"|(?<![\w.-])src\({_GAP}{_QUOTE}{_REMOTE}",
    re.IGNORECASE,
)
_STYLE_WORDS: Final = (
    "@import",
    "url(",
    "src(",
    "image-set",
    "cross-fade",
)  # without any of them a style loads nothing
# Lists of pictures for screens of several kinds, and an address in one.
_PICTURES_OF_STYLE: Final = re.compile(r"\b(?:image-set|cross-fade)\(([^{};<>]*+)", re.IGNORECASE)
_PICTURE_OF_STYLE: Final = LatePattern(rf"(?:\A|[\s,(/]){_QUOTE}{_REMOTE}", re.IGNORECASE)
_PICTURES: Final = re.compile(r"[\s\"'/](?:image)?srcset\s{0,20}=\s{0,20}[\"']?([^<>\"']*+)", re.IGNORECASE)
_PICTURE: Final = LatePattern(rf"(?:\A|[,\s=]){_REMOTE}", re.IGNORECASE)
_STYLE_ESCAPE: Final = re.compile(r"\\(?:([0-9a-fA-F]{1,6})(?:\r\n|[ \t\r\n\f])?|(\r\n|[\r\n\f])|(.))")
_ATTRIBUTES: Final = r"(?:[^<>\"']|\"[^\"]{0,2000}\"|'[^']{0,2000}')"  # with what is in quotation marks
_LOADED: Final = LatePattern(
    rf"[\s\"'/](?:src|poster|background|data|lowsrc|dynsrc|manifest)\s{{0,20}}=\s{{0,20}}[\"']?{_REMOTE}"
    rf"|<(?:[^\s<>/=:\"']{{1,64}}:)?(?:base|image|use|feimage|tref)\b{_ATTRIBUTES}{{0,2000}}?"
    rf"[\s\"'/:]href\s{{0,20}}=\s{{0,20}}[\"']?{_REMOTE}",
    re.IGNORECASE,
)
_LOADING_WORDS: Final = ("src", "poster", "background", "data", "manifest", "base", "image", "use", "tref")
_LINKED: Final = LatePattern(
    rf"<(?:[^\s<>/=:\"']{{1,64}}:)?(link|meta)\b((?:{_ATTRIBUTES}|[\"']|(?!)){{0,4000}}+)", re.IGNORECASE
)
_LOADING_LINK: Final = re.compile(r"\brel\s*=\s*[\"']?[^\"'<>]*?(?:stylesheet|icon|preload|prefetch|import|manifest)")
_HREF: Final = LatePattern(rf"\bhref\s*=\s*[\"']?{_REMOTE}")
_REDIRECTION: Final = LatePattern(  # after the seconds, with or without `url=`
    rf"(?:\A|\bcontent\s{{0,20}}=\s{{0,20}}[\"']?)[\s\d.]{{0,40}}[;,\s]\s{{0,20}}(?:url\s{{0,20}}=)?\s{{0,20}}"
    rf"[\"']?{_REMOTE}",
    re.IGNORECASE,
)

# Of the references to characters those that addresses may hide, which are no markup: a reference never opens a tag.
_CHARACTER: Final = re.compile(
    r"&(?:#0*([0-9]{1,7});?|#[xX]0*([0-9a-fA-F]{1,6});?|(Tab|NewLine|colon|sol|comma|semi);)"
)
_NAMED: Final = {"Tab": "", "NewLine": "", "colon": ":", "sol": "/", "comma": ",", "semi": ";"}
_MARKUP_CHARACTERS: Final = frozenset("<>\"'=& ")
_LINE_ENDS: Final = re.compile(  # within an address, where readers skip them, and not in front of an attribute
    r"(?<=[A-Za-z:/&;])[\t\r\n]++(?=[A-Za-z:/&])(?!(?:xlink:)?[A-Za-z-]{1,30}\s{0,20}=)"
)
_SRCDOC: Final = re.compile(r"\bsrcdoc\s{0,20}=\s{0,20}(?:\"([^\"]*+)\"|'([^']*+)'|([^\s>\"'][^\s>]*+))", re.IGNORECASE)
_SRCDOC_LEVELS: Final = 4
_LONG_NUMBER: Final = re.compile(r"&#[xX]?[0-9a-fA-F]{9,}")

_ENTITY: Final = re.compile(r"<!ENTITY\s+([^\s%\"'<>&;]+)\s+(?:\"([^\"]*+)\"|'([^']*+)')")
_REFERENCE: Final = re.compile(r"&([^\s%\"'<>&;#]{1,100});")
_ENTITY_LEVELS: Final = 8
_EXPANDED_MOST: Final = 4  # times the length of the page, and as many KiB


def measure_page(subject: Subject, sheet: FactSheet) -> None:
    """Add the flags of a web page, as far as it is read."""
    left, pieces = _READ_BYTES, []
    for piece in read_text(subject.source):
        pieces.append(piece[:left].replace("\0", ""))
        left -= len(piece)
        if left <= 0:
            sheet.complete = False
            break
    text = "".join(pieces)
    examine_page(text, sheet, Deadline(subject.limits.soft_seconds))
    if _OFFERED.search(text) and _BUILT.search(text):
        sheet.flags |= {"smuggling.html", "script.html"}


def examine_page(page: str, sheet: FactSheet, deadline: Deadline, level: int = 0) -> None:
    """Add the flags of a page."""
    """Add flags of a page, of what its entities stand for, and of the pages that are written in its attributes."""
    texts = [page]
    if "<!ENTITY" in page:
        expanded, is_whole = _expanded(page)
        texts.append(expanded)
        sheet.complete &= is_whole
    for text in texts:
        plain = _LINE_ENDS.sub("", _CHARACTER.sub(_resolved, text)) if "&" in text or level == 0 else text
        for each in (text,) if plain == text else (text, plain):
            lower = _small_letters(each)
            if _HANDLER.search(lower) or (_has_word(lower, _SCRIPT_WORDS) and _SCRIPT.compiled.search(each)):
                sheet.flags.add("script.html")
            if (
                (_has_word(lower, _LOADING_WORDS) and _LOADED.compiled.search(each))
                or loads_by_style(each)
                or ("srcset" in lower and any(_PICTURE.compiled.search(found[1]) for found in _PICTURES.finditer(each)))
                or _has_loading_link(each)
            ):
                sheet.flags.add("link.external")
        for found in _SRCDOC.finditer(text) if "srcdoc" in _small_letters(text) else ():
            if level == _SRCDOC_LEVELS:
                sheet.flags.add("script.html")  # ordinary pages are not nested so deeply
            elif deadline.has_passed:
                sheet.complete = False
            else:
                inner = html.unescape(_LONG_NUMBER.sub("", found[1] or found[2] or found[3] or ""))
                examine_page(inner, sheet, deadline, level + 1)


def _small_letters(text: str) -> str:
    """Return a text in which a word is found in small letters if an expression that ignores case finds it."""
    lower = text.lower()
    if text.isascii():
        return lower
    return lower.replace("\u017f", "s").replace("\u0131", "i").replace("i\u0307", "i")


def _has_word(lower: str, words: tuple[str, ...]) -> bool:
    return any(word in lower for word in words)


def _has_loading_link(text: str) -> bool:
    for name, attributes in _LINKED.compiled.findall(text):
        lower = attributes.lower()
        if name.lower() == "link":
            if _HREF.compiled.search(lower) and _LOADING_LINK.search(lower):
                return True
        elif "refresh" in lower and redirects(lower):
            return True
    return False


def loads_by_style(text: str) -> bool:
    """Return whether a style anywhere in a text loads something of another computer."""
    texts = (text, _STYLE_ESCAPE.sub(_unescaped, text)) if "\\" in text else (text,)
    return any(
        _LOADING_STYLE.compiled.search(each)
        or any(_PICTURE_OF_STYLE.compiled.search(found[1]) for found in _PICTURES_OF_STYLE.finditer(each))
        for each in texts
        if _has_word(_small_letters(each), _STYLE_WORDS)
    )


def redirects(text: str) -> bool:
    """Return whether the content of a redirection, or the attributes with it, lead to another computer."""
    return _REDIRECTION.compiled.search(text) is not None


def _unescaped(escape: re.Match[str]) -> str:
    if escape[1]:
        code = int(escape[1], 16)
        return chr(code) if 0 < code < 0xD800 else "\ufffd"
    return escape[3] or ""


def _resolved(reference: re.Match[str]) -> str:
    if reference[3]:
        return _NAMED[reference[3]]
    code = int(reference[1]) if reference[1] else int(reference[2], 16)
    character = chr(code) if code < 0xD800 else "\ufffd"
    if character in "\t\r\n":
        return ""
    return "\ufffd" if character in _MARKUP_CHARACTERS else character


def _expanded(page: str) -> tuple[str, bool]:
    """Return the page with its own entities replaced by what they stand for, and whether all of them are."""
    entities: dict[str, str] = {}
    for name, quoted, single in _ENTITY.findall(page):  # the first declaration holds
        entities.setdefault(name, html.unescape(_LONG_NUMBER.sub("", quoted or single)))
    most = left = _EXPANDED_MOST * (len(page) + 1024)

    def value_of(reference: re.Match[str]) -> str:
        nonlocal left
        value = entities.get(reference[1], reference[0])
        left -= len(value)
        return value if left >= 0 else ""

    for _ in range(_ENTITY_LEVELS):
        left = most
        page, previous = _REFERENCE.sub(value_of, page), page
        if left < 0:
            return page, False
        if page == previous:
            return page, True
    return page, False
