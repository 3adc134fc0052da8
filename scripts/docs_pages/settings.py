"""`docs/settings.md`: every setting of the service, grouped by purpose, as declared in `sluice.settings`."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import TypeAlias

from pydantic.fields import FieldInfo

from docs_pages.markdown import made_from, page, table
from docs_pages.schemas import Schema, rules
from sluice.settings import FROM_FILES, Settings

Row: TypeAlias = tuple[str, str, str, str]

# The first setting of each section; the others follow in the order of the fields.
_SECTIONS = {
    "data_dir": "Start",
    "public_url": "Give it a public address",
    "database_url": "Use PostgreSQL",
    "limiter": "Run several servers",
    "storage_dir": "Store files in S3 or in a folder",
    "bucket_endpoint_hosts": "Let tenants bring their own buckets",
    "scanner": "Scan for malware",
    "oidc_issuer": "Sign in with OIDC",
    "metrics_token": "Watch it",
    "connections": "Set limits",
    "purge_after_days": "Decide how long data are kept",
    "sandbox": "Tune",
    "failpoint": "Test recovery",
}

# What most installations set. A reader should find these without the other sections.
_MOST_USED = (
    "data_dir",
    "host",
    "port",
    "public_url",
    "trusted_proxies",
    "production",
    "database_url",
    "storage_url",
    "scanner",
    "clamd",
    "limiter",
    "redis_url",
    "oidc_issuer",
    "metrics_token",
    "sandbox_workers",
)

_INTRO = """
# Settings

Every setting is an environment variable, read when a process starts: `SLUICE_` and the name in capitals. All have a
default that works on one machine, so an empty environment is enough to start.

A wrong value ends the start with a sentence that names the setting, and so does a `SLUICE_*` variable that is none:
the sentence has the setting that was probably meant.
Lists are comma-separated: `SLUICE_CLAMD=unix:/run/clamav/clamd.ctl,tcp:10.0.0.7:3310`. Booleans are `true` or `false`.
A relative folder is relative to the folder in which the process was started.

Some may be in a file of their own, whose path is in the variable with `_FILE` behind its name
(`SLUICE_DATABASE_URL_FILE=/run/secrets/database_url`). The file must not be readable by others: mode 0600 or 0400, or
0440 if it belongs to a user or group of the process, as secrets are mounted into containers. They are:

{from_files}
"""


def settings_page() -> str:
    """Return the page."""
    schemas = Settings.model_json_schema()["properties"]
    fields = Settings.model_fields
    rows = {
        name: (f"`SLUICE_{name.upper()}`", _default(field), _values(schemas[name]), field.description or "")
        for name, field in fields.items()
    }
    return page(
        made_from("server/src/sluice/settings.py"),
        _INTRO.format(from_files="\n".join(f"- `SLUICE_{name.upper()}_FILE`" for name in FROM_FILES)),
        "## The most used",
        _table(rows[name] for name in _MOST_USED),
        *_sections(rows),
    )


def _sections(rows: Mapping[str, Row]) -> Iterator[str]:
    names = list(rows)
    starts = [at for at, name in enumerate(names) if name in _SECTIONS]
    if starts[:1] != [0] or len(starts) != len(_SECTIONS):
        raise SystemExit("scripts/docs_pages/settings.py: a section begins with a setting that does not exist")
    for start, end in zip(starts, [*starts[1:], len(names)], strict=True):
        yield f"## {_SECTIONS[names[start]]}"
        yield _table(rows[name] for name in names[start:end])


def _table(rows: Iterable[Row]) -> str:
    return table(("Variable", "Default", "Values", "Meaning"), rows)


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
    raise SystemExit(f"scripts/docs_pages/settings.py: no text for the default {field.default!r}")


def _values(schema: Schema) -> str:
    # Settings without a default may be null; "not set" is no value that a reader can write.
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    values = " or ".join(_values_of_option(option) for option in options)
    return "URL" if values == "secret" and schema["title"].endswith("Url") else values


def _values_of_option(schema: Schema) -> str:
    if schema.get("type") == "array":
        return "list"
    if "enum" in schema:
        return rules(schema)
    formats = {"path": "folder", "uri": "URL", "password": "secret"}
    return formats.get(schema.get("format", ""), "") or rules(
        {key: value for key, value in schema.items() if not key.endswith("Length")}
    )
