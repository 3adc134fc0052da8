"""`sluice contexts`: the contexts of a tenant on a running service over HTTP."""

import json as json_format
import os
import re
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from sluice_client.cli import output
from sluice_client.cli.form import FormFile, files_in, opened_file
from sluice_client.cli.options import MOMENT, Json, group_of, past_moment
from sluice_client.cli.output import CommandRefused, Exit
from sluice_client.cli.service import BodyFile, Fields, Service, body_of, complete_context, given, on_service, segment

group = group_of("List, show, create and change contexts, and replay what a change of their rules would have done.")

_PATH: Final = "/api/v1/contexts"
_NUMBERS: Final = 2
_FIELDS: Final = Path(__file__).with_name("context_fields.json")
KEYWORD_ONLY: Final = Parameter.KEYWORD_ONLY

Key = Annotated[
    str, typer.Argument(metavar="KEY", autocompletion=complete_context, help="Key of the context, such as invoices.")
]
Rate = Annotated[
    str | None,
    typer.Option(
        "--rate", metavar="UPLOADS/SECONDS", help="Most uploads in any such time, as 10/60; `none`: unlimited."
    ),
]
Sanitise = Annotated[
    str | None,
    typer.Option(
        "--sanitise",
        metavar="WHAT",
        help="What is taken out of every file: metadata, active_content or pixels, several with commas; `none`: none. "
        "Signed documents are then rejected; what else is possible is set with `--field`.",
    ),
]
# Options whose names are not those of their fields.
_OPTIONS: Final = {
    "display_name": "--name",
    "allowed_extensions": "--extension",
    "reject_blank_files": "--reject-blank/--accept-blank",
    "reject_corrupt_files": "--reject-corrupt/--accept-corrupt",
    "scan_for_viruses": "--scan/--no-scan",
    "storage_config_id": "--bucket",
}
_NULL: Final = "none"


def with_rules(operation: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command an option for each field that the operation takes, and the fields as its parameter `rules`.

    The fields are those of `context_fields.json`, which the server's models make. Objects are given by `--field`.
    """
    fields: dict[str, Any] = json_format.loads(_FIELDS.read_text(encoding="utf-8"))[operation]
    fields.pop("context_key", None)
    options = [
        Parameter(name, KEYWORD_ONLY, default=None, annotation=_option(name, one)) for name, one in fields.items()
    ]
    options.append(Parameter("upload_rate_limit", KEYWORD_ONLY, default=None, annotation=Rate))
    if operation != "replay":
        options.append(Parameter("sanitise", KEYWORD_ONLY, default=None, annotation=Sanitise))

    def wrapped(command: Callable[..., Any]) -> Callable[..., Any]:
        own = [one for one in signature(command, eval_str=True).parameters.values() if one.name != "rules"]

        def run(**given: Any) -> Any:
            rules = {one.name: value for one in options if (value := given.pop(one.name)) is not None}
            return command(rules={name: _value(name, value, fields) for name, value in rules.items()}, **given)

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        at = next(number for number, one in enumerate(own) if one.kind is KEYWORD_ONLY)
        parameters = [*own[:at], *options, *own[at:]]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        vars(run)["__signature__"] = Signature(parameters)
        return run

    return wrapped


def _option(name: str, field: Mapping[str, Any]) -> Any:
    """Return the annotation of an option for a field."""
    kind, is_nullable = field["type"], field.get("nullable", False)
    words = re.sub(r"`([^`]+)`", r"\1", field["description"])
    if is_nullable:
        words = re.sub(r"\bnull\b", _NULL, words)
    if kind == "boolean":
        default = f"--{name.replace('_', '-')}/--no-{name.replace('_', '-')}"
        return Annotated[bool | None, typer.Option(_OPTIONS.get(name, default), help=words)]
    given = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
    if kind == "array":
        return Annotated[list[str] | None, typer.Option(given, metavar="TEXT", help=f"{words} Again for more.")]
    if "values" in field:
        return Annotated[Literal[tuple(field["values"])] | None, typer.Option(given, help=words)]
    if kind == "integer" and not is_nullable:
        return Annotated[int | None, typer.Option(given, help=words)]
    return Annotated[str | None, typer.Option(given, metavar="NUMBER" if kind == "integer" else "TEXT", help=words)]


def _value(name: str, value: Any, fields: Mapping[str, Any]) -> Any:
    """Return the value of a field that an option names; raise a usage error."""
    if name == "upload_rate_limit":
        numbers = value.split("/")
        if value != _NULL and not (len(numbers) == _NUMBERS and all(one.isdecimal() for one in numbers)):
            raise typer.BadParameter("expected uploads/seconds such as 10/60, or none", param_hint="--rate")
        return None if value == _NULL else {"max_uploads": int(numbers[0]), "window_seconds": int(numbers[1])}
    if name == "sanitise":
        return None if value == _NULL else {"remove": value.split(",")}
    if fields[name].get("nullable") and value == _NULL:
        return None
    if fields[name]["type"] == "integer" and isinstance(value, str):
        if not value.isdecimal():
            raise typer.BadParameter("expected a number, or none", param_hint=f"--{name.replace('_', '-')}")
        return int(value)
    return value


@group.command("list")
@on_service
def list_contexts(
    *,
    status: Annotated[Literal["active", "inactive"] | None, typer.Option(help="Only contexts in this state.")] = None,
    service: Service,
    json: Json = False,
) -> None:
    """List the contexts. With --json: one line per context."""
    output.listing(
        service.pages(_PATH, given(status=status)),
        ("CONTEXT", "NAME", "STATUS", "MAX MB", "EXTENSIONS", "BYTES STORED"),
        lambda one: (
            one["context_key"],
            one["display_name"],
            one["status"],
            str(one["max_file_size_mb"]),
            " ".join(one["allowed_extensions"]) or "all",
            str(one["storage_used_bytes"]),
        ),
        json=json,
    )


@group.command()
@on_service
def show(key: Key, *, service: Service, json: Json = False) -> None:
    """Show one context with all of its rules."""
    output.fields(service.data("GET", f"{_PATH}/{segment(key)}"), json=json)


@group.command()
@on_service
@with_rules("create")
def create(
    key: Key,
    *,
    rules: dict[str, Any],
    field: Fields = [],  # noqa: B006  (typer copies it)
    body: BodyFile = None,
    service: Service,
    json: Json = False,
) -> None:
    """Create a context. The API key needs the scope `admin`. `sluice apply` keeps several in a file."""
    sent = body_of({"context_key": key, **rules}, field, body)
    made = service.data("POST", _PATH, body={"display_name": key, **sent})
    _done(made, f"Created the context {made['context_key']}.", json=json)


@group.command()
@on_service
@with_rules("update")
def update(
    key: Key,
    *,
    rules: dict[str, Any],
    all_extensions: Annotated[bool, typer.Option("--all-extensions", help="Allow all extensions.")] = False,
    field: Fields = [],  # noqa: B006  (typer copies it)
    body: BodyFile = None,
    service: Service,
    json: Json = False,
) -> None:
    """Change a context. What is not named stays as it is. The API key needs the scope `admin`."""
    sent = body_of(rules | ({"allowed_extensions": []} if all_extensions else {}), field, body)
    if not sent:
        raise CommandRefused("Nothing to change: name what should be different.", Exit.USAGE)
    _done(service.data("PATCH", f"{_PATH}/{segment(key)}", body=sent), f"Changed the context {key}.", json=json)


def _done(context: Mapping[str, Any], sentence: str, *, json: bool) -> None:
    """Print that a context was made or changed, and the secrets of its new external checks."""
    output.done(context, sentence, json=json)
    for check in context.get("external_checks", ()):
        if "secret" in check and not json:
            output.say(f"The secret of the check {check['name']}, shown now and never again:")
            output.line(check["secret"])


@group.command("rotate-check-secret")
@on_service
def rotate_check_secret(
    key: Key,
    check: Annotated[str, typer.Argument(metavar="CHECK", help="Name of the external check.")],
    *,
    service: Service,
    json: Json = False,
) -> None:
    """Give an external check a new secret, and print it, which is done once. The old one signs too for 24 hours."""
    made = service.data("POST", f"{_PATH}/{segment(key)}/external-checks/{segment(check)}/rotate-secret")
    if json:
        output.as_json(made)
        return
    output.say(f"The new secret of {check}, shown now and never again:")
    output.line(made["secret"])


examples = group_of(
    "Add, list and remove examples of the documents that a context expects. Its policy document_kind compares files "
    "with them."
)
group.add_typer(examples, name="examples")
_ALIKE: Final = {
    "ready": "Files are compared with them.",
    "few": "Nothing is compared yet: at least three are needed.",
    "alike": "Nothing is compared yet: these are copies of fewer than three documents.",
    "different": "Nothing is compared: they have too little in common.",
}


@examples.command("add")
@on_service
def add_examples(
    key: Key,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", exists=True, help="Files, and folders of files.")],
    *,
    service: Service,
    json: Json = False,
) -> None:
    """Add examples: each file is checked and read, and not kept. The API key needs the scope `admin`. With --json: one
    line per example.
    """
    added: dict[str, Any] = {}
    for path in files_in(files):
        with opened_file(path) as (file, _size):
            name = os.fsencode(path.name).decode("utf-8", "replace")
            response = FormFile(name, file).send(service.http, f"{_PATH}/{segment(key)}/examples", {})
        added = service.success(response)["data"]
        if json:
            output.as_json(added)
        else:
            output.line(f"Added {added['example']['filename']} as {added['example']['example_id']}.")
    if added and not json:
        _say_kind(added["examples"], added["kind"])


@examples.command("list")
@on_service
def list_examples(key: Key, *, service: Service, json: Json = False) -> None:
    """List the examples, and say what they have in common."""
    found = service.data("GET", f"{_PATH}/{segment(key)}/examples")
    if json:
        output.as_json(found)
        return
    output.listing(
        found["examples"],
        ("EXAMPLE", "FILE", "TYPE", "BYTES", "ADDED"),
        lambda one: (
            one["example_id"], one["filename"], one["content_type"], str(one["size_bytes"]), one["created_at"],
        ),
        json=False,
    )  # fmt: skip
    _say_kind(len(found["examples"]), found["kind"])


@examples.command("remove")
@on_service
def remove_example(
    key: Key,
    example: Annotated[str, typer.Argument(metavar="EXAMPLE", help="Id of the example, as `list` shows it.")],
    *,
    service: Service,
    json: Json = False,
) -> None:
    """Remove an example, and all that was kept of it. The API key needs the scope `admin`."""
    left = service.data("DELETE", f"{_PATH}/{segment(key)}/examples/{segment(example)}")
    output.done(left, f"Removed {example}.", json=json)
    if not json:
        _say_kind(len(left["examples"]), left["kind"])


def _say_kind(count: int, kind: Mapping[str, Any]) -> None:
    words = f" They share {', '.join(kind['words'][:10])}." if kind["words"] else ""
    output.say(f"{count} examples, alike by {kind['cohesion']} of 100. {_ALIKE[kind['state']]}{words}")


@group.command()
@on_service
@with_rules("replay")
def replay(
    key: Key,
    *,
    rules: dict[str, Any],
    since: Annotated[
        str | None, typer.Option("--since", callback=past_moment, metavar="WHEN", help=f"Only later uploads: {MOMENT}.")
    ] = None,
    field: Fields = [],  # noqa: B006  (typer copies it)
    body: BodyFile = None,
    service: Service,
    json: Json = False,
) -> None:
    """Show what a change of rules would have done to earlier uploads, and change nothing."""
    changes = body_of(rules, field, body)
    found = service.data("POST", f"{_PATH}/{segment(key)}/replay", body={"changes": changes, **given(since=since)})
    output.fields(found, json=json)
