"""`docs/settings.md`: every setting of the service. The settings themselves are declared in `sluice.settings`."""

from collections.abc import Iterator
from pathlib import PurePath

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from docs_pages.markdown import made_from, page, table
from docs_pages.schemas import Schema, rules
from sluice.settings import Settings

_SECTIONS = {
    "host": "Server",
    "metrics_token": "Watching",
    "database_url": "Database",
    "storage_dir": "Storage and buckets",
    "scanner": "Malware scanner",
    "sandbox": "Sandbox of the checker",
    "spool_memory_kb": "Uploads",
    "rescan_per_second": "Worker and retention",
    "jwt_issuer": "Tokens and credentials",
    "drain_seconds": "Stopping",
}
"""The first setting of each section; the others follow in the order of the catalogue."""

_INTRO = """
# Settings

Every setting is read from the environment when a process starts. Its name is `SLUICE_` and the words in capitals. An empty
environment is enough for one machine: each setting has a default that works there.

A value that is not of its kind ends the start with a sentence that names the setting. Unknown `SLUICE_*` variables are ignored.
Lists are written with commas: `SLUICE_CLAMD=unix:/run/clamav/clamd.ctl,tcp:10.0.0.7:3310`. Booleans are `true` or `false`.
A relative folder is below the folder in which the process was started.
"""


def settings_page() -> str:
    """Answer the page."""
    return page(made_from("src/sluice/settings.py"), _INTRO, *_sections())


def env_name(field: str) -> str:
    """Answer the environment variable of a setting."""
    return f"SLUICE_{field.upper()}"


def _sections() -> Iterator[str]:
    schemas = Settings.model_json_schema()["properties"]
    fields = list(_fields(Settings))
    starts = [at for at, (name, _) in enumerate(fields) if name in _SECTIONS]
    if starts[:1] != [0] or len(starts) != len(_SECTIONS):
        raise SystemExit("scripts/docs_pages/settings.py: a section begins with a setting that is not there")
    for start, end in zip(starts, [*starts[1:], len(fields)], strict=True):
        yield f"## {_SECTIONS[fields[start][0]]}"
        rows = [
            (f"`{env_name(name)}`", _default(field), _kind(schemas[name]), field.description or "")
            for name, field in fields[start:end]
        ]
        yield table(("Variable", "Default", "Values", "Meaning"), rows)


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    yield from model.model_fields.items()


def _default(field: FieldInfo) -> str:
    match field.default:
        case None | ():
            return "none"
        case bool(flag):
            return f"`{str(flag).lower()}`"
        case tuple(words):
            return f"`{','.join(words)}`"
        case float(number) if number.is_integer():
            return f"`{int(number)}`"
        case PurePath() | int() | float() | str():
            return f"`{field.default}`"
    raise SystemExit(f"scripts/docs_pages/settings.py: no words for the default {field.default!r}")


def _kind(schema: Schema) -> str:
    """Answer what a value may be, without the null that stands for "not set"."""
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    kind = " or ".join(_one_kind(option) for option in options)
    return "URL" if kind == "secret" and schema["title"].endswith("Url") else kind


def _one_kind(schema: Schema) -> str:
    if schema.get("type") == "array":
        return "list"
    if "enum" in schema:
        return rules(schema)
    words = {"path": "folder", "uri": "URL", "password": "secret"}
    return words.get(schema.get("format", ""), "") or rules({k: v for k, v in schema.items() if not k.endswith("Length")})
