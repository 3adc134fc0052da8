"""JSON Schema in words: what a value may be."""

import json
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

_BOUNDS = (
    ("minimum", "at least"),
    ("maximum", "at most"),
    ("exclusiveMinimum", "more than"),
    ("exclusiveMaximum", "less than"),
)


def rules(schema: Schema) -> str:
    """Return type and bounds of a value, such as `integer, 1 to 500`."""
    if "anyOf" in schema:
        return " or ".join(rules(option) for option in schema["anyOf"])
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"always `{json.dumps(schema['const'])}`"
    if schema.get("type") == "array":
        lengths = "".join(f", {length}," for length in _lengths(schema))
        return f"array{lengths} of {rules(schema['items'])}"
    return ", ".join([_kind(schema), *_lengths(schema), *_bounds(schema), *_shape(schema)])


def shown_default(schema: Schema) -> str:
    """Return the default of a field in JSON, or an empty text."""
    return f"`{json.dumps(schema['default'])}`" if "default" in schema else ""


def _kind(schema: Schema) -> str:
    return "string (date-time)" if schema.get("format") == "date-time" else str(schema.get("type", "any value"))


def _lengths(schema: Schema) -> list[str]:
    unit = "items" if schema.get("type") == "array" else "characters"
    least, most = (schema.get(f"{end}{'Items' if unit == 'items' else 'Length'}") for end in ("min", "max"))
    if least is not None and most is not None:
        return [f"{least} to {most:,} {unit}"]
    if most is not None:
        return [f"at most {most:,} {unit}"]
    return [] if least is None else [f"at least {least} {unit}"]


def _bounds(schema: Schema) -> list[str]:
    if "minimum" in schema and "maximum" in schema:
        return [f"{_number(schema['minimum'])} to {_number(schema['maximum'])}"]
    return [f"{words} {_number(schema[name])}" for name, words in _BOUNDS if name in schema]


def _shape(schema: Schema) -> list[str]:
    return [f"matches `{schema['pattern']}`"] if "pattern" in schema else []


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:,}"
