"""Write `sluice_client/cli/context_fields.json`, from which the options of `sluice contexts` are made, or say that it is stale.

python scripts/context_fields.py            write it
python scripts/context_fields.py --check    exit with 1 if it differs from what the API takes
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from docs_pages.words import IN_SCHEMA, meaning_of
from pydantic import BaseModel

import sluice_client.cli
from sluice.api.schemas.contexts import CreateContext, RuleChanges, UpdateContext

_PATH: Final = Path(sluice_client.cli.__file__).with_name("context_fields.json")
_COMMANDS: Final[Mapping[str, type[BaseModel]]] = {
    "create": CreateContext,
    "update": UpdateContext,
    "replay": RuleChanges,
}


def main(words: Sequence[str]) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description="Write the fields of contexts that the commands have options for.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the file is stale")
    is_check = parser.parse_args(words).check
    text = context_fields()
    if _PATH.exists() and text == _PATH.read_text(encoding="utf-8"):
        return 0
    if is_check:
        print(f"stale: {_PATH} (run `make docs`)", file=sys.stderr)
        return 1
    _PATH.write_text(text, encoding="utf-8")
    print(f"written: {_PATH}")
    return 0


def context_fields() -> str:
    """Return the content of the file: for each command the fields with their type, values, description, and whether null is one."""
    found = {
        command: {
            name: field
            for name, described in model.model_json_schema()["properties"].items()
            if (field := _field(model.__name__, name, described))
        }
        for command, model in _COMMANDS.items()
    }
    return json.dumps(found, indent=2) + "\n"


def _field(schema: str, name: str, described: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field that an option can hold; nothing for an object, or a list of objects."""
    kinds = described.get("anyOf", [described])
    one = next(kind for kind in kinds if kind.get("type") != "null")
    if one.get("type") not in {"string", "integer", "boolean", "array"} or "$ref" in one.get("items", {}):
        return {}
    words = described.get("description") or one.get("description") or IN_SCHEMA.get(schema, {}).get(name)
    field = {"type": one["type"], "description": words or meaning_of(name)}
    if "enum" in one:
        field["values"] = one["enum"]
    if len(kinds) > 1:
        field["nullable"] = True
    return field


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
