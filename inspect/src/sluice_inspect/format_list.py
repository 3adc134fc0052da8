"""The names of all formats, for processes that load no parser.

`format_list.json` is written by `make docs` from the `Format` values, and a test compares it with them. It has the
names of each format for people: see `Format.names`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_LIST: Final[dict[str, dict[str, str]]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))

FORMAT_NAMES: Final = frozenset(_LIST)
# English names for people, by the name of a format, by extension or by the beginning of a media type.
NAMES_FOR_PEOPLE: Final[Mapping[str, str]] = {code: name for names in _LIST.values() for code, name in names.items()}
