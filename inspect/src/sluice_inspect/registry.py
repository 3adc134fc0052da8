"""All formats: every `Format` that a module of `formats` defines.

A format is loaded when it is first asked for, since most files need one and a command must not wait for all. What is
known without loading it is in `format_list`. `FORMATS` has all in the order in which content is matched, `OPENERS` how
the scan opens formats, by their names, the surest first; both are made on first use.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from sluice_inspect.format import Format
from sluice_inspect.format_list import LIST, Listed
from sluice_inspect.parts import Opener

if TYPE_CHECKING:
    FORMATS: tuple[Format, ...]
    OPENERS: Mapping[str, Opener]

# Imported by its name: formats import what is shared, and some of that asks the registry when it is called.
_PACKAGE: Final = "sluice_inspect.formats"
_BY_EXTENSION: Final = {extension: name for name, listed in LIST.items() for extension in listed.extensions}

# How content of each format begins, in the order in which they are asked whether it is theirs.
_BEGINNINGS: Final = [
    (
        name,
        None if listed.begins is None else tuple(each.encode("latin-1") for each in listed.begins),
        listed.begins_within,
    )
    for name, listed in sorted(LIST.items(), key=lambda each: (each[1].match_order, each[0]))
    if listed.begins != []
]


def format_named(name: str) -> Format | None:
    """Return the format of a name, or None."""
    return _formats_in(LIST[name].module)[name] if name in LIST else None


def format_of(extension: str) -> Format | None:
    """Return the format that an extension (lower case, without the dot) names, or None."""
    return format_named(_BY_EXTENSION.get(extension, ""))


def candidates(head: bytes) -> Iterator[Format]:
    """Yield, in the order of `FORMATS`, the formats that content with these first bytes can be; no text format."""
    for name, begins, within in _BEGINNINGS:
        if begins is None or head.startswith(begins) or (within and _is_within(head, begins, within)):
            yield _formats_in(LIST[name].module)[name]


def _is_within(head: bytes, begins: tuple[bytes, ...], within: int) -> bool:
    return any(head.find(each, 0, within + len(each)) >= 0 for each in begins)


def containers() -> list[Format]:
    """Return the formats that are opened where they are found within an archive, in the order of `FORMATS`."""
    modules = {listed.module for listed in LIST.values() if listed.is_container}
    return _in_order(each for module in modules for each in _formats_in(module).values() if each.container is not None)


def listed() -> dict[str, Listed]:
    """Return what `format_list.json` has to say of each format, by the formats themselves."""
    return {
        each.name: Listed(
            module=module,
            extensions=sorted(each.extensions),
            promise=None if each.promise is None else each.promise.name,
            begins=_begins(each),
            begins_within=each.begins_within,
            match_order=each.match_order,
            is_container=each.container is not None,
            is_opened=each.opener is not None,
            names=dict(sorted(each.names.items())),
        )
        for module in _modules()
        for each in _formats_in(module).values()
    }


def _begins(each: Format) -> list[str] | None:
    if each.is_text:
        return []
    return None if each.begins is None else sorted(begin.decode("latin-1") for begin in each.begins)


@cache
def _formats_in(module: str) -> Mapping[str, Format]:
    values = vars(importlib.import_module(f"{_PACKAGE}.{module}")).values()
    # By the type itself: `isinstance` asks a value for its class, and a module that loads later would load now.
    return {value.name: value for value in values if type(value) is Format}


def _in_order(formats: Iterable[Format]) -> list[Format]:
    return sorted(formats, key=lambda each: (each.match_order, each.name))


def _openers() -> Mapping[str, Opener]:
    modules = {listed.module for listed in LIST.values() if listed.is_opened}
    formats = _in_order(each for module in modules for each in _formats_in(module).values())
    opened = ((each.name, each.opener) for each in formats if each.opener is not None)
    return dict(sorted(opened, key=lambda each: each[1].certainty))


def _all() -> tuple[Format, ...]:
    return tuple(_in_order(each for module in _modules() for each in _formats_in(module).values()))


def _modules() -> Iterator[str]:
    package = importlib.import_module(_PACKAGE)
    for found in pkgutil.walk_packages(package.__path__, f"{_PACKAGE}."):
        yield found.name.removeprefix(f"{_PACKAGE}.")


def __getattr__(name: str) -> object:
    makers: Mapping[str, Callable[[], object]] = {"FORMATS": _all, "OPENERS": _openers}
    if name not in makers:
        raise AttributeError(name)
    return globals().setdefault(name, makers[name]())
