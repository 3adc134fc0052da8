"""What is known of all formats without loading one: for the server, which loads no parser, and for the registry.

`format_list.json` is written by `make docs` from the `Format` values, and a test compares it with them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Listed:
    """What the list has of a format. Fields that a `Format` has too are explained there."""

    module: str  # below `sluice_inspect.formats`
    extensions: list[str]
    promise: str | None
    begins: list[str] | None  # in Latin-1; empty for text formats, which only a name tells from each other
    begins_within: int
    match_order: int
    is_container: bool  # it is opened where it is found within an archive
    is_opened: bool  # the scan opens it
    names: Mapping[str, str]


_RAW: Final = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
LIST: Final[Mapping[str, Listed]] = {name: Listed(**fields) for name, fields in _RAW.items()}
FORMAT_NAMES: Final = frozenset(LIST)
# English names for people, by the name of a format, by extension or by the beginning of a media type.
NAMES_FOR_PEOPLE: Final[Mapping[str, str]] = {code: name for each in LIST.values() for code, name in each.names.items()}
