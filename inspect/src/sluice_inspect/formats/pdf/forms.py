"""What a form of XML in a PDF (XFA 3.3) loads from other computers or sends to them without a click."""
# Its packets are read as one text by an expression that takes every mark there is, well-formed or not, in one pass.

import html
import re
from collections import Counter
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.fields import is_remote

_MARK: Final = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<!\[CDATA\[(?P<literal>.*?)(?:\]\]>|\Z)"
    r"|<\?xml-stylesheet(?P<style>.*?)(?:\?>|\Z)|<\?.*?(?:\?>|\Z)"
    r"|<!(?P<declared>(?:DOCTYPE|ENTITY)(?:[^<>\"']|\"[^\"]*(?:\"|\Z)|'[^']*(?:'|\Z)|(?!))*+)"
    r"|<(?P<closes>/?)(?P<name>[^\s<>/=\"'!?]{1,200})(?P<rest>(?:[^<>\"']|\"[^\"]*(?:\"|\Z)|'[^']*(?:'|\Z)|(?!))*+)",
    re.DOTALL,
)
_ATTRIBUTE: Final = re.compile(
    r"(?<![^\s<>/=\"'])([^\s<>/=\"']{1,200})\s{0,100}=\s{0,100}(?:\"([^\"]*+)|'([^']*+))[\"']?"
)
_OUTSIDE: Final = re.compile(r"\b(?:SYSTEM|PUBLIC\s+(?:\"[^\"]*+\"|'[^']*+'))\s+(?:\"([^\"]*+)|'([^']*+))")
_DOCUMENT: Final = re.compile(r"\bdocument\(\s{0,100}[\"']([^\"']{0,2000})")
_BLANKS: Final = re.compile(r"[\x00-\x20\ufeff]+")
_LONG_NUMBER: Final = re.compile(r"&#[xX]?[0-9a-fA-F]{9,}")
_SERVER: Final = re.compile(r"(?:server|datasource|address|addr)=(?!\(?(?:local|\.|127\.))[^;]|[\\/]{2}", re.IGNORECASE)

_LOADING: Final = frozenset({"href", "usehref", "src", "codebase", "archive"})
_CLICKED: Final = frozenset({"a", "f"})  # links, and the document that annotations belong to
_WITHIN: Final = ("data:", "cid:", "urn:")  # addresses of what is in the form, and names that are no addresses
_CLICKS: Final = frozenset({"", "click", "mouseup", "mousedown"})  # the activity of an event is a click by default
_ADDRESSES: Final = frozenset({"uri", "soapaddress", "wsdladdress", "connectstring", "base"})
_DATA: Final = "datasets"
_CLOCK_INTERVAL: Final = 4096


def loads_or_sends(form: str, deadline: Deadline) -> bool | None:
    """Return whether a form names data on other computers or sends itself there by itself, None if time is over."""
    reader = _FormReader()
    end = 0
    for count, mark in enumerate(_MARK.finditer(form), 1):
        if count % _CLOCK_INTERVAL == 0 and deadline.has_passed:
            return None
        reader.text(form[end : mark.start()])
        end = mark.end() + form.startswith(">", mark.end())
        if mark["name"] is not None:
            if mark["closes"]:
                reader.close(_local(mark["name"]))
            else:
                reader.open(_local(mark["name"]), _attributes(mark["rest"]))
                if mark["rest"].endswith("/"):
                    reader.close(_local(mark["name"]))
        elif mark["literal"] is not None:
            reader.text(mark["literal"], is_literal=True)
        elif mark["style"] is not None:
            reader.load(_attributes(mark["style"]).get("href", ""))
        elif mark["declared"] is not None:
            for quoted, single in _OUTSIDE.findall(mark["declared"]):
                reader.load(quoted or single)
        if reader.is_loading:
            return True
    return reader.is_loading_from_base


class _FormReader:
    """Follows the elements of a form, in their nesting as far as it is one."""

    def __init__(self) -> None:
        self.is_loading = False
        self._names: list[str] = []
        self._counts: Counter[str] = Counter()
        self._activities: list[str] = []
        self._address: list[str] | None = None
        self._has_base = self._has_relative = False

    @property
    def is_loading_from_base(self) -> bool:
        """Whether an address is relative to another computer."""
        return self._has_base and self._has_relative

    def load(self, address: str) -> None:
        """Note an address that is loaded."""
        plain = _BLANKS.sub("", address)
        if is_remote(plain):
            self.is_loading |= not plain.lower().startswith(_WITHIN)
        elif plain and not plain.startswith("#"):
            self._has_relative = True

    def open(self, name: str, attributes: dict[str, str]) -> None:
        self._names.append(name)
        self._counts[name] += 1
        if self._names[:2].count(_DATA):  # what was filled in: pictures, and texts with them
            is_picture = name == "img" or "contenttype" in attributes
            attributes = {each: attributes[each] for each in ("href", "src") if is_picture and each in attributes}
        elif name == "event":
            self._activities.append(attributes.get("activity", "").strip().lower())
        elif name == "submit" and self._activities and self._activities[-1] not in _CLICKS:
            self.load(attributes.get("target", ""))
        elif name in _ADDRESSES and self._address is None:
            self._address = []
        for attribute, value in attributes.items():
            if attribute in _LOADING and name not in _CLICKED:
                self.load(value)
            elif "document(" in value:
                for address in _DOCUMENT.findall(value):
                    self.load(address)

    def close(self, name: str) -> None:
        if not self._counts[name]:
            return
        while self._names:
            closed = self._names.pop()
            self._counts[closed] -= 1
            if closed == "event" and self._activities:
                self._activities.pop()
            if closed in _ADDRESSES and self._address is not None and not any(map(self._counts.get, _ADDRESSES)):
                self._judge_address(closed, "".join(self._address))
                self._address = None
            if closed == name:
                return

    def text(self, text: str, *, is_literal: bool = False) -> None:
        if self._address is not None and text:
            self._address.append(text if is_literal else _unescaped(text))

    def _judge_address(self, name: str, text: str) -> None:
        plain = _BLANKS.sub("", text)
        if name == "base":
            self._has_base = self._has_base or is_remote(plain)
        elif name == "connectstring":
            self.is_loading = self.is_loading or _SERVER.search(plain) is not None
        elif is_remote(plain):
            self.load(plain)


def _local(name: str) -> str:
    return name.rpartition(":")[2].lower()


def _attributes(text: str) -> dict[str, str]:
    """Return the attributes of a tag by their local names."""
    if "=" not in text:
        return {}
    return {_local(name): _unescaped(quoted or single) for name, quoted, single in _ATTRIBUTE.findall(text)}


def _unescaped(text: str) -> str:
    return html.unescape(_LONG_NUMBER.sub("", text)) if "&" in text else text
