"""`sluice apply`: bring contexts, webhooks, CORS and hash list entries of a tenant to what a file says, over HTTP.

All of the file is checked before anything is sent. Each resource is one request, so it is changed as a whole or not at
all; if one is refused, the others are still applied.
"""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the API's models)

import json as json_format
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sluice.cli.yaml_text import read_yaml
from sluice_client.cli import output
from sluice_client.cli.options import Json
from sluice_client.cli.output import CommandRefused, Exit
from sluice_client.cli.service import Service, on_service, segment

if TYPE_CHECKING:
    from pydantic import BaseModel
    from yaml import Node

_MOST_BYTES: Final = 4 * 1_048_576
_CONTEXTS: Final = "/api/v1/contexts"
_WEBHOOKS: Final = "/api/v1/webhook-endpoints"
_CORS: Final = "/api/v1/cors"
_HASHES: Final = "/api/v1/hash-lists"
_MOST_HASHES: Final = 1000  # one request each; longer lists are imported
_SECTIONS: Final = ("contexts", "webhooks", "cors", "hash_lists")

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One request that brings one resource to what the file says: `created`, `changed` or `removed`.

    `fields` are the changes as they are shown: name, value before, value after.
    """

    what: str
    kind: str
    method: str
    path: str
    body: Fields | None
    fields: tuple[tuple[str, Any, Any], ...] = ()


@on_service
def apply(
    file: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="The YAML file.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="With --dry-run: exit with 1 if something would change.")
    ] = False,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="Make contexts inactive and remove webhooks that are missing in a section of the file. Entries of "
            "hash lists stay.",
        ),
    ] = False,
    service: Service,
    json: Json = False,
) -> int:
    """Bring contexts, webhooks, CORS and hash list entries of a tenant to what a file says. The API key needs the scope
    `admin`.

    Applied twice, it changes nothing the second time. What the file does not name stays as it is, without **--prune**.
    With --json: one line per resource.
    """
    wanted = _read(file)
    counts: Counter[str] = Counter()
    changes = [*_plan(service, wanted, prune=prune)]
    for change in changes:
        if not json:
            _show(change)
        outcome, secrets = ("planned", {}) if dry_run else _send(service, change)
        counts[outcome] += 1
        if json:
            fields = {name: {"before": before, "after": after} for name, before, after in change.fields}
            output.as_json(
                {
                    "resource": change.what,
                    "action": change.kind,
                    "outcome": outcome,
                    "fields": fields or dict(change.body or {}),
                    **secrets,
                }
            )
        elif secrets:
            output.line("    To be copied now, since it is never shown again:")
            for name, secret in secrets.items():
                output.line(f"      {name.replace('_', ' ')}: {secret}")
    if dry_run:
        sums = f"{len(changes)} resources would change." if changes else "Nothing would change."
        code = Exit.ERROR if changes and exit_code else Exit.DONE
    else:
        words = [f"{counts[kind]} {kind}" for kind in ("created", "changed", "removed", "refused") if counts[kind]]
        sums = ", ".join(words) + "." if words else "Nothing to change."
        code = Exit.ERROR if counts["refused"] else Exit.DONE
    if not json:
        output.line(sums)
    return code


# --- The file


def _read(file: Path) -> dict[str, Any]:
    """Return what the file says, checked; raise `CommandRefused` with each problem, its line and its field."""
    if file.stat().st_size > _MOST_BYTES:
        raise CommandRefused(f"{file} is larger than {_MOST_BYTES} bytes.", Exit.USAGE)
    try:
        found, node = read_yaml(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as fault:
        raise CommandRefused(f"{file} is not UTF-8.", Exit.USAGE) from fault
    except ValueError as fault:
        raise CommandRefused(f"{file}: {fault}", Exit.USAGE) from fault
    # Dates, which YAML reads and JSON does not have, are texts.
    wanted: dict[str, Any] | None = (
        json_format.loads(json_format.dumps(found, default=str)) if isinstance(found, dict) else None
    )
    if wanted is None or node is None:
        raise CommandRefused(f"{file}:1: expected the sections {', '.join(_SECTIONS)}.", Exit.USAGE)
    repeated = [f"{file}:{line}: {name}: given twice" for name, line in _repeated(node)]
    problems = repeated or [f"{file}:{_line(node, place)}: {sentence}" for place, sentence in _problems(wanted)]
    if problems:
        raise CommandRefused("; ".join(problems), Exit.USAGE)
    return wanted


def _problems(wanted: Fields) -> Iterator[tuple[Sequence[str | int], str]]:
    """Yield the place and the sentence of everything that the API would refuse."""
    from sluice.api.schemas.contexts import CreateContext
    from sluice.api.schemas.cors import ReplaceCors
    from sluice.api.schemas.webhooks import CreateEndpoint

    for name in wanted.keys() - set(_SECTIONS):
        yield (name,), f"{name}: unknown section, expected {', '.join(_SECTIONS)}"
    contexts, webhooks = wanted.get("contexts"), wanted.get("webhooks")
    if "contexts" in wanted and not isinstance(contexts, dict):
        yield ("contexts",), "contexts: expected a mapping of context keys"
    for key, fields in contexts.items() if isinstance(contexts, dict) else ():
        yield from _checked(CreateContext, ("contexts", key), fields, {"context_key": key}, _CONTEXT_STATES)
    if "webhooks" in wanted and not isinstance(webhooks, list):
        yield ("webhooks",), "webhooks: expected a list"
    known = Counter[str]()
    for number, fields in enumerate(webhooks if isinstance(webhooks, list) else ()):
        yield from _checked(CreateEndpoint, ("webhooks", number), fields, {}, ())
        known[str(fields.get("url") if isinstance(fields, dict) else number)] += 1
        if known.most_common(1)[0][1] > 1:
            yield ("webhooks", number, "url"), f"webhooks.{number}.url: another webhook of the file has this URL"
    if "cors" in wanted:
        yield from _checked(ReplaceCors, ("cors",), wanted["cors"], {}, ())
    if "hash_lists" in wanted:
        yield from _problems_of_hashes(wanted["hash_lists"])


def _problems_of_hashes(wanted: Any) -> Iterator[tuple[Sequence[str | int], str]]:
    from sluice.api.schemas.hash_lists import NewHash
    from sluice.hash_lists.entry import ALGORITHMS, WEAK_ALLOW, parse_digest

    if not isinstance(wanted, list) or len(wanted) > _MOST_HASHES:
        advice = "longer lists are imported with `sluice hashes import`"
        yield ("hash_lists",), f"hash_lists: expected a list of at most {_MOST_HASHES} entries; {advice}"
        return
    known = set[bytes]()
    for number, fields in enumerate(wanted):
        place = ("hash_lists", number)
        problems = [*_checked(NewHash, place, fields, {}, ())]
        yield from problems
        if problems:
            continue
        digest = parse_digest(fields["digest"]) or b""
        where = f"hash_lists.{number}.digest"
        if digest in known:
            yield (*place, "digest"), f"{where}: another entry of the file has this digest"
        if fields.get("list") == "allow" and ALGORITHMS[len(digest)] != "sha256":
            yield (*place, "digest"), f"{where}: {WEAK_ALLOW}"
        known.add(digest)


_CONTEXT_STATES: Final = ("active", "inactive")


def _checked(
    model: "type[BaseModel]", place: tuple[str | int, ...], fields: Any, more: Fields, states: Sequence[str]
) -> Iterator[tuple[Sequence[str | int], str]]:
    from pydantic import ValidationError

    from sluice.api.error_responses import describe

    where = ".".join(map(str, place))
    if not isinstance(fields, dict):
        yield place, f"{where}: expected a mapping of fields"
        return
    if states and fields.get("status", states[0]) not in states:
        yield (*place, "status"), f"{where}.status: expected {' or '.join(states)}, found {fields['status']!r}"
    body = {**{name: value for name, value in fields.items() if name != "status" or not states}, **more}
    try:
        model.model_validate_json(json_format.dumps(body))
    except ValidationError as fault:
        for problem in fault.errors():
            (sentence,) = describe([{**problem, "loc": ("body", *problem["loc"])}])
            yield (*place, *problem["loc"]), f"{where}.{sentence}"


def _line(node: "Node", place: Sequence[str | int]) -> int:
    """Return the line of a place in the file, or of what is nearest above it."""
    from yaml import MappingNode, SequenceNode

    line = node.start_mark.line
    for part in place:
        if isinstance(node, MappingNode):
            pair = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line, pair[1]
        elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line
        else:
            break
    return int(line) + 1


def _repeated(node: "Node") -> Iterator[tuple[str, int]]:
    """Yield each key that a mapping has twice, with its line: YAML's reader would take the last one."""
    from yaml import MappingNode, SequenceNode

    if isinstance(node, SequenceNode):
        for one in node.value:
            yield from _repeated(one)
    if isinstance(node, MappingNode):
        known = set[str]()
        for key, value in node.value:
            if str(key.value) in known:
                yield str(key.value), int(key.start_mark.line) + 1
            known.add(str(key.value))
            yield from _repeated(value)


# --- What differs


def _plan(service: Service, wanted: Fields, *, prune: bool) -> Iterator[PlannedChange]:
    if "contexts" in wanted:
        yield from _plan_contexts(service, wanted["contexts"], prune=prune)
    if "webhooks" in wanted:
        yield from _plan_webhooks(service, wanted["webhooks"], prune=prune)
    if "cors" in wanted:
        from sluice.api.schemas.cors import ReplaceCors

        before = service.data("GET", _CORS)["allowed_origins"]
        after = ReplaceCors.model_validate_json(json_format.dumps(wanted["cors"])).allowed_origins
        if set(before) != set(after):
            yield PlannedChange("cors", "changed", "PUT", _CORS, wanted["cors"], (("allowed_origins", before, after),))
    if "hash_lists" in wanted:
        yield from _plan_hashes(service, wanted["hash_lists"])


def _plan_contexts(service: Service, wanted: Fields, *, prune: bool) -> Iterator[PlannedChange]:
    from sluice.api.schemas.contexts import CreateContext

    current = {one["context_key"]: one for one in service.pages(_CONTEXTS, {})}
    for key, fields in wanted.items():
        what, path = f"context {key}", f"{_CONTEXTS}/{segment(key)}"
        if key not in current:
            rest = {name: value for name, value in fields.items() if name != "status"}
            yield PlannedChange(what, "created", "POST", _CONTEXTS, {"context_key": key, **rest})
            if fields.get("status") == "inactive":
                change = (("status", "active", "inactive"),)
                yield PlannedChange(what, "changed", "PATCH", path, {"status": "inactive"}, change)
            continue
        shown = service.data("GET", path)
        same = CreateContext.model_fields.keys() & shown.keys()
        before = _draft(CreateContext, {name: shown[name] for name in same})
        after = _draft(CreateContext, {"context_key": key, **fields})
        yield from _difference(what, path, fields, shown=shown, before=before, after=after)
    for key in sorted(current.keys() - wanted.keys()) if prune else ():
        if current[key]["status"] == "active":
            path, change = f"{_CONTEXTS}/{segment(key)}", (("status", "active", "inactive"),)
            yield PlannedChange(f"context {key}", "changed", "PATCH", path, {"status": "inactive"}, change)


def _plan_webhooks(service: Service, wanted: Sequence[Fields], *, prune: bool) -> Iterator[PlannedChange]:
    from sluice.api.schemas.webhooks import CreateEndpoint

    current: dict[str, Any] = {}
    for one in service.data("GET", _WEBHOOKS):
        if one["url"] in current and one["url"] in {fields["url"] for fields in wanted}:
            raise CommandRefused(f"The tenant has several webhooks with the URL {one['url']}: remove all but one.")
        current[one["url"]] = one
    for fields in wanted:
        what, shown = f"webhook {fields['url']}", current.get(fields["url"])
        if shown is None:
            yield PlannedChange(what, "created", "POST", _WEBHOOKS, fields)
            continue
        path = f"{_WEBHOOKS}/{segment(shown['endpoint_id'])}"
        before = _draft(CreateEndpoint, {name: shown[name] for name in CreateEndpoint.model_fields})
        yield from _difference(what, path, fields, shown=shown, before=before, after=_draft(CreateEndpoint, fields))
    for address in sorted(current.keys() - {fields["url"] for fields in wanted}) if prune else ():
        path = f"{_WEBHOOKS}/{segment(current[address]['endpoint_id'])}"
        yield PlannedChange(f"webhook {address}", "removed", "DELETE", path, None)


def _plan_hashes(service: Service, wanted: Sequence[Fields]) -> Iterator[PlannedChange]:
    from sluice.api.schemas.hash_lists import NewHash
    from sluice.kit.clock import utc_now

    for fields in wanted:
        after = NewHash.model_validate_json(json_format.dumps(fields)).to_draft()
        if after.is_over(utc_now()):
            continue  # it has no effect any more, whether or not the service has it
        digest = after.digest.hex()
        what, body = f"hash {digest}", {"entries": [fields]}
        shown = next(iter(service.pages(_HASHES, {"digest": digest}, 1)), None)
        if shown is None:
            yield PlannedChange(what, "created", "POST", _HASHES, body)
            continue
        before = NewHash.model_validate({name: shown[name] for name in NewHash.model_fields}).to_draft()
        names = ("list", "reason", "expires_at")
        if changed := [name for name in names if getattr(before, name) != getattr(after, name)]:
            shown_fields = tuple((name, shown[name], fields.get(name)) for name in changed)
            yield PlannedChange(what, "changed", "POST", _HASHES, body, shown_fields)


def _difference(
    what: str, path: str, fields: Fields, *, shown: Fields, before: Fields, after: Fields
) -> Iterator[PlannedChange]:
    """Yield the change of the fields that the file names and that differ, if there are any."""
    changed = tuple(
        (name, shown.get(name), value)
        for name, value in fields.items()
        if (shown["status"] != value if name == "status" else before[name] != after[name])
    )
    if changed:
        yield PlannedChange(what, "changed", "PATCH", path, {name: value for name, _before, value in changed}, changed)


def _draft(model: "type[BaseModel]", fields: Fields) -> Fields:
    """Return fields in the one form in which equal values are equal: with defaults, and letters and order settled."""
    named = {name: value for name, value in fields.items() if name in model.model_fields}
    draft: Any = model.model_validate_json(json_format.dumps(named))
    value = draft.draft()
    renamed = {"events": "event_types", "contexts": "context_keys"}
    found = {name: getattr(value, renamed.get(name, name)) for name in model.model_fields}
    return {name: frozenset(one) if name in renamed else one for name, one in found.items()}


# --- Showing and sending


def _show(change: PlannedChange) -> None:
    sign = {"created": "+", "changed": "~", "removed": "-"}[change.kind]
    fields = change.fields
    if change.kind == "created":
        fields = tuple((name, None, value) for name, value in (change.body or {}).items())
    output.line(f"{sign} {change.what}")
    for name, before, after in fields:
        old = "" if change.kind == "created" else f"{json_format.dumps(before)} -> "
        output.line(f"    {name}: {old}{json_format.dumps(after)}")


def _send(service: Service, change: PlannedChange) -> tuple[str, dict[str, str]]:
    """Send a change; return the state of the resource, and the secrets that are shown now, by name."""
    try:
        response = service.data(change.method, change.path, body=change.body)
    except CommandRefused as fault:
        if fault.code in {Exit.CREDENTIALS, Exit.UNAVAILABLE}:
            raise
        output.complain(f"{change.what}: {fault}")
        return "refused", {}
    secrets = {"secret": response["secret"]} if change.kind == "created" and change.path == _WEBHOOKS else {}
    if change.path.startswith(_CONTEXTS):
        made = [check for check in response.get("external_checks", ()) if "secret" in check]
        secrets |= {f"secret_of_{check['name']}": check["secret"] for check in made}
    return change.kind, secrets
