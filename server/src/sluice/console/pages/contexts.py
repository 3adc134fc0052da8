"""Contexts: the list, one context, its editor with a trial on earlier uploads, and a trial of a single file."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from starlette.responses import Response

from sluice.access import Scope
from sluice.api.routes.upload import validate_for
from sluice.api.schemas.contexts import CreateContext, UpdateContext
from sluice.api.schemas.replays import ReplayOut
from sluice.api.schemas.reports import full_report
from sluice.audit import AuditChange
from sluice.console.filters import read_duration
from sluice.console.pages.external_checks import IF_UNAVAILABLE_WORDS
from sluice.console.templating import MODE_WORDS, show_period, show_value, show_words
from sluice.console.visit import Visit, problems_of, redirect, uploader_of
from sluice.contexts import Context
from sluice.contexts.branding import LOGO_PREFIX
from sluice.contexts.policies import POLICY_MODELS, Label, NamedText
from sluice.errors import Invalid, NotFound, SluiceError, Unauthenticated
from sluice.files.record import RetentionPreview, RetentionRule
from sluice.kit.clock import utc_now
from sluice.kit.paging import PageRequest
from sluice.uploads.reports import ExternalHealth
from sluice.uploads.statistics import Outcomes
from sluice.uploads.values import Rules

_DAYS: Final = 14
_REPLAYED: Final = timedelta(days=7)
_CHANGES_SHOWN: Final = 8
_CHOICES_MOST: Final = 10  # more are written as words
_CHANGES: Final = (
    "context.changed",
    "context.example_added",
    "context.example_removed",
    "context.held",
    "context.unheld",
    "context.created",
)


@dataclass(frozen=True, slots=True)
class PolicyField:
    """A value of a policy in the editor.

    `kind` is `number`, `text`, `flag` (`switch` if it is off by default), `words` (a list), `phrases` (with commas),
    `lines` (of named texts) or `choices`.
    """

    name: str
    label: str
    kind: str
    choices: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()  # of the choices, by default
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class ChangedField:
    """A changed field, as it is shown; of a list, the removed and the added values. None is nothing."""

    label: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class PolicyForm:
    """A policy as the editor shows it."""

    name: str
    label: str
    hint: str
    fields: tuple[PolicyField, ...] = ()


def _policy_field(name: str, field: FieldInfo) -> PolicyField:
    """Return how the editor shows a field of a policy, by its type."""
    kinds = [each for each in (field.annotation, *get_args(field.annotation)) if each is not type(None)]
    values = next((get_args(each)[0] for each in kinds if get_origin(each) is list), None)
    if bool in kinds:
        kind = "flag" if field.default else "switch"
    elif int in kinds or values is None:
        kind = "number" if int in kinds else "text"
    else:
        kind = {NamedText: "lines", Label: "phrases"}.get(values, "words")
    if get_origin(values) is Literal and len(get_args(values)) <= _CHOICES_MOST:
        chosen = tuple(field.get_default(call_default_factory=True, validated_data={}))
        choices = tuple(sorted(get_args(values), key=lambda each: (each not in chosen, each)))
        return PolicyField(name, field.title or name, "choices", choices, chosen)
    return PolicyField(name, field.title or name, kind, is_required=field.is_required())


def _policy_form(name: str) -> PolicyForm:
    model = POLICY_MODELS[name]
    fields = tuple(_policy_field(each, field) for each, field in model.model_fields.items() if each != "mode")
    return PolicyForm(name, model.label, model.hint, fields)


POLICY_GROUPS: Final = {
    group: tuple(_policy_form(name) for name, model in POLICY_MODELS.items() if model.group == group)
    for group in ("accept", "check", "limits")
}
_CHECKS: Final = (
    ("integrity", "reject_corrupt_files", "Damage", "Files that do not decode, or are not what their name says."),
    ("blank", "reject_blank_files", "Blank files", "Documents and pictures with nothing on them."),
    ("malware", "scan_for_viruses", "Malware", "What the scanner knows."),
)


# What can be taken out of files, as the editor shows it.
_REMOVALS: Final = (
    ("metadata", "Metadata", "Position, camera, author and dates. Pixels and text stay."),
    ("active_content", "Active content", "Macros, scripts, actions, embedded files and links to elsewhere."),
    ("pixels", "All but the pixels", "Pictures are encoded again, a PDF becomes pictures of its pages."),
)
_PAGE_FIELDS: Final = ("page_name", "page_sentence", "page_color", "page_logo")
# Where the name of a field does not say what people call it.
_LABELS: Final = {
    "max_file_size_mb": "Largest file in MB",
    "storage_path_template": "Path",
    "reject_blank_files": "Check for blank files",
    "reject_corrupt_files": "Check for damage",
    "scan_for_viruses": "Scan for malware",
    "upload_rate_limit": "Rate limit",
    "storage_quota_mb": "Quota in MB",
    "storage_config_id": "Bucket",
    "sanitise": "Taken out of files",
    "retention_days": "Days kept",
    "retention_starts": "Days count from",
    "page_name": "Name on the upload page",
    "page_sentence": "Sentence on the upload page",
    "page_color": "Colour of the upload page",
    "page_logo": "Logo on the upload page",
    "examples": "Number of examples",
    "check_modes.integrity": "Damage",
    "check_modes.blank": "Blank files",
    "check_modes.malware": "Malware",
}
_QUANTITY: Final = re.compile(r"(\d{1,12})\s*([a-z]*)", re.IGNORECASE | re.ASCII)
_SIZES: Final = {"": 1, "mb": 1, "gb": 1024, "tb": 1024 * 1024}


async def show_list(visit: Visit) -> Response:
    """Show all contexts with their use and how much of their uploads was refused."""
    number = int(asked) if (asked := visit.asked("page") or "1").isdecimal() and len(asked) < 6 else 1  # noqa: PLR2004
    page = await visit.services.contexts.list_page(visit.tenant_id, None, PageRequest(max(1, number), 50))
    now = utc_now()
    first = (now - timedelta(days=_DAYS - 1)).date()
    _total, by_context = await visit.services.usage.load(visit.tenant_id, first, now.date(), "context")
    rates = {row.key: Outcomes.of(row) for row in by_context}
    return visit.page("contexts/list.html", page=page, rates=rates)


async def show(visit: Visit) -> Response:
    """Show one context."""
    return await _show(visit)


async def _show(visit: Visit, trial: object = None, errors: Sequence[str] = ()) -> Response:
    context = await _context(visit)
    is_admin = visit.allows(Scope.ADMIN)
    buckets = await visit.services.buckets.list_all(visit.tenant_id) if is_admin else ()
    return visit.page(
        "contexts/show.html",
        status=422 if errors else 200,
        context=context,
        policies=context.policies.to_json(),
        checks=_CHECKS,
        removals=_REMOVALS,
        bucket=next((bucket for bucket in buckets if bucket.config_id == context.storage_config_id), None),
        changes=await _changes(visit, context) if is_admin else (),
        external_healths=await _external_healths(visit, context) if is_admin and context.external_checks else {},
        if_unavailable_words=IF_UNAVAILABLE_WORDS,
        trial=trial,
        errors=errors,
        logo_prefix=LOGO_PREFIX,
    )


async def try_file(visit: Visit) -> Response:
    """Judge one file by the rules of the context without storing it, and show its report."""
    caller, read_caller = uploader_of(visit, visit.principal)
    try:
        report = await validate_for(visit.request, caller, read_caller)
    except Unauthenticated:
        raise
    except SluiceError as error:
        return await _show(visit, errors=error.errors)
    return await _show(visit, trial=full_report(report, visit.request.headers.get("accept-language")))


async def _external_healths(visit: Visit, context: Context) -> Mapping[str, ExternalHealth]:
    return await visit.services.reports.external_healths(visit.tenant_id, context.context_key)


async def _changes(visit: Visit, context: Context) -> Sequence[tuple[AuditChange, Sequence[ChangedField]]]:
    found = await visit.services.audit.last_changes(visit.tenant_id, context.context_key, _CHANGES, _CHANGES_SHOWN)
    return [(change, [_changed(name, *values) for name, values in change.fields.items()]) for change in found]


def _changed(name: str, before: Any, after: Any) -> ChangedField:
    label = _LABELS.get(name) or show_words(name.removeprefix("policies."))
    if isinstance(before, list) and isinstance(after, list):  # of a list only what went and what came
        gone, came = [each for each in before if each not in after], [each for each in after if each not in before]
        if gone or came:
            return ChangedField(label, show_value(gone) if gone else None, show_value(came) if came else None)
    if name.endswith(".mode") or name.startswith("check_modes."):
        before, after = (MODE_WORDS.get(each, each) for each in (before, after))
    return ChangedField(label, _shown(before), _shown(after))


def _shown(value: Any) -> str | None:
    """Return a value as people read it; None for nothing."""
    if value in (None, "", [], {}):
        return None
    match value:
        case {"max_uploads": uploads, "window_seconds": seconds}:
            return f"{uploads:,} uploads within {show_period(seconds)}"
        case {"mode": mode, **others}:
            return ", ".join([MODE_WORDS[mode], *([show_value(others)] if others else [])])
    return show_value(value)


async def _context(visit: Visit) -> Context:
    return await visit.services.contexts.get(visit.tenant_id, visit.request.path_params["context_key"])


async def hold(visit: Visit) -> Response:
    """Put a legal hold on all files of a context."""
    context = await _context(visit)
    await visit.services.files.hold_context(visit.by("context.held"), context.context_key, visit.why("reason"))
    return redirect(f"/console/contexts/{context.context_key}?notice=held")


async def unhold(visit: Visit) -> Response:
    """End the hold on a context."""
    context = await _context(visit)
    await visit.services.files.unhold_context(visit.by("context.unheld"), context.context_key)
    return redirect(f"/console/contexts/{context.context_key}?notice=unheld")


async def show_new(visit: Visit) -> Response:
    """Show the form for a new context."""
    return await _editor(visit, None, _form_of(None))


async def create(visit: Visit) -> Response:
    """Create a context."""
    try:
        body = CreateContext.model_validate(_body(visit) | {"context_key": visit.sent("context_key")})
        context = await visit.services.contexts.create(visit.by("context.created"), body.draft())
    except ValidationError as fault:
        return await _editor(visit, None, visit.form, errors=problems_of(fault))
    except SluiceError as error:
        return await _editor(visit, None, visit.form, errors=error.errors)
    return redirect(f"/console/contexts/{context.context_key}")


async def show_editor(visit: Visit) -> Response:
    """Show the editor of a context."""
    context = await _context(visit)
    return await _editor(visit, context, _form_of(context))


async def change(visit: Visit) -> Response:
    """Save the editor, or try its rules on earlier uploads and show what they would have done."""
    context = await _context(visit)
    try:
        body = UpdateContext.model_validate(_body(visit) | {"status": visit.sent("status")})
        if visit.sent("intent") == "replay":
            replay, retention = await _replay(visit, context, body), await _due(visit, context, body)
            return await _editor(visit, context, visit.form, replay=replay, retention=retention)
        retention = await _due(visit, context, body)
        if retention is not None and retention.now and visit.sent("sure") != _rule_words(body):
            return await _editor(visit, context, visit.form, retention=retention, asks=_rule_words(body))
        await visit.services.contexts.change(visit.by("context.changed"), context.context_key, body.changes())
    except ValidationError as fault:
        return await _editor(visit, context, visit.form, errors=problems_of(fault))
    except NotFound:
        raise
    except SluiceError as error:
        return await _editor(visit, context, visit.form, errors=error.errors)
    return redirect(f"/console/contexts/{context.context_key}")


async def _replay(visit: Visit, context: Context, body: UpdateContext) -> ReplayOut:
    changed = await visit.services.contexts.with_changes(visit.tenant_id, context.context_key, body.changes())
    now = utc_now()
    replay, truncated = await visit.services.reports.replay(
        visit.tenant_id, context.context_key, Rules.of(changed), since=now - _REPLAYED, until=now
    )
    return ReplayOut.of(replay, now - _REPLAYED, truncated=truncated)


async def _due(visit: Visit, context: Context, body: UpdateContext) -> RetentionPreview | None:
    """Return how many files a new retention would delete; None if it is no new one, or keeps files for ever."""
    is_same = (body.retention_days, body.retention_starts) == (context.retention_days, context.retention_starts)
    if body.retention_days is None or (is_same and visit.sent("intent") != "replay"):
        return None
    now = utc_now()
    rule = RetentionRule(
        context.tenant_id,
        context.context_id,
        context.context_key,
        context.rules_version,
        body.retention_days,
        body.retention_starts,
        retention_after=None,
        retention_due_at=now,
        held_at=context.held_at,
        present=now,
    )
    return await visit.services.files.preview_retention(rule)


def _rule_words(body: UpdateContext) -> str:
    """Return the retention that the user was asked about: another one is asked about again."""
    return f"{body.retention_days} {body.retention_starts}"


async def _editor(
    visit: Visit,
    context: Context | None,
    form: Mapping[str, str],
    *,
    errors: Sequence[str] = (),
    replay: ReplayOut | None = None,
    retention: RetentionPreview | None = None,
    asks: str = "",
) -> Response:
    return visit.page(
        "contexts/edit.html",
        status=422 if errors else 200,
        context=context,
        form=form,
        errors=errors,
        replay=replay,
        retention=retention,
        asks=asks,
        buckets=await visit.services.buckets.list_all(visit.tenant_id),
        groups=POLICY_GROUPS,
        checks=_CHECKS,
        removals=_REMOVALS,
        mode_words=MODE_WORDS,
        logo_prefix=LOGO_PREFIX,
    )


def _form_of(context: Context | None) -> dict[str, str]:
    """Return the fields of the editor for a context; None is a new one with the defaults of the interface."""
    if context is None:
        checks = {f"check_{name}": "enforce" for name, *_more in _CHECKS}
        return {"max_file_size_mb": "10", "status": "active"} | checks
    rate, modes = context.upload_rate_limit, context.check_modes
    form = {
        "display_name": context.display_name,
        "description": context.description or "",
        "allowed_extensions": " ".join(context.allowed_extensions),
        "max_file_size_mb": str(context.max_file_size_mb),
        "storage_path_template": context.storage_path_template,
        "storage_config_id": context.storage_config_id or "",
        "storage_quota_mb": "" if context.storage_quota_mb is None else _show_megabytes(context.storage_quota_mb),
        "rate_max_uploads": "" if rate is None else str(rate.max_uploads),
        "rate_window_seconds": "" if rate is None else show_period(rate.window_seconds),
        "retention_days": "" if context.retention_days is None else str(context.retention_days),
        "retention_starts": context.retention_starts,
        "status": context.status,
        **{name: getattr(context, name) or "" for name in _PAGE_FIELDS},
    }
    for name, switch, _label, _hint in _CHECKS:
        form[f"check_{name}"] = getattr(modes, name).value if getattr(context, switch) else "off"
    if context.sanitise is not None:
        form |= {f"sanitise.{name}": "on" for name in context.sanitise.remove}
        form |= {"sanitise.original": context.sanitise.original, "sanitise.signed": context.sanitise.signed}
    for name, values in context.policies.to_json().items():
        kinds = {field.name: field.kind for field in _policy_form(name).fields}
        for field, value in values.items():
            if kinds.get(field) == "lines":
                form[f"{name}.{field}"] = "\n".join(map(_line_of, value))
            elif kinds.get(field) == "phrases":
                form[f"{name}.{field}"] = ", ".join(value)
            elif isinstance(value, list):
                form[f"{name}.{field}"] = " ".join(value)
                form |= {f"{name}.{field}.{each}": "on" for each in value}
            else:
                form[f"{name}.{field}"] = str(value)
    return form


def _body(visit: Visit) -> dict[str, Any]:
    """Return the fields of the editor as the API takes them."""
    body: dict[str, Any] = {
        "display_name": visit.sent("display_name"),
        "description": visit.sent("description") or None,
        "allowed_extensions": visit.sent("allowed_extensions").replace(",", " ").split(),
        "max_file_size_mb": _number(visit.sent("max_file_size_mb")),
        "storage_path_template": visit.sent("storage_path_template") or None,
        "storage_config_id": visit.sent("storage_config_id") or None,
        "storage_quota_mb": _megabytes(visit.sent("storage_quota_mb")),
        "retention_days": _number(visit.sent("retention_days")),
        "retention_starts": visit.sent("retention_starts") or "stored",
        **{name: visit.sent(name) or None for name in _PAGE_FIELDS},
        "upload_rate_limit": None,
        "sanitise": None,
        "check_modes": {},
        "policies": {},
    }
    if visit.sent("rate_max_uploads") or visit.sent("rate_window_seconds"):
        window = read_duration(visit, "rate_window_seconds", "Within")
        body["upload_rate_limit"] = {"max_uploads": _number(visit.sent("rate_max_uploads")), "window_seconds": window}
    if removals := [name for name, *_more in _REMOVALS if visit.sent(f"sanitise.{name}")]:
        others = {name: sent for name in ("original", "signed") if (sent := visit.sent(f"sanitise.{name}"))}
        body["sanitise"] = {"remove": removals, **others}
    for name, switch, _label, _hint in _CHECKS:
        mode = visit.sent(f"check_{name}")
        body[switch] = mode != "off"
        if mode not in {"off", "enforce"}:
            body["check_modes"][name] = mode
    for policy in itertools.chain.from_iterable(POLICY_GROUPS.values()):
        mode = visit.sent(f"{policy.name}.mode")
        if mode not in {"", "none"}:
            body["policies"][policy.name] = {"mode": mode, **_policy_values(visit, policy)}
    return body


def _policy_values(visit: Visit, policy: PolicyForm) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in policy.fields:
        sent = visit.sent(f"{policy.name}.{field.name}")
        if field.kind == "choices":
            values[field.name] = [each for each in field.choices if visit.sent(f"{policy.name}.{field.name}.{each}")]
        elif field.kind == "words":
            words = sent.replace(",", " ").split()
            values |= {field.name: words} if words or field.is_required else {}
        elif field.kind == "phrases":
            values[field.name] = [each.strip() for each in sent.split(",") if each.strip()]
        elif field.kind == "lines":
            values[field.name] = [_named_text(line) for line in sent.splitlines() if line.strip()]
        elif field.kind == "flag":
            values[field.name] = sent != "False"
        elif field.kind == "switch":
            values[field.name] = sent == "True"
        elif sent:
            values[field.name] = _number(sent) if field.kind == "number" else sent
    return values


def _line_of(named: Mapping[str, Any]) -> str:
    """Return a named text as a line of the editor: `Name: phrase | other phrase | /pattern/`."""
    pattern = [f"/{named['pattern']}/"] if "pattern" in named else []
    return f"{named['name']}: {' | '.join([*named.get('any', ()), *pattern])}"


def _named_text(line: str) -> dict[str, Any]:
    """Return what a line of the editor says, as the API takes it."""
    name, _colon, rest = line.partition(":")
    words, slash, pattern = f"|{rest}|".replace("| /", "|/").partition("|/")
    named: dict[str, Any] = {"name": name.strip(), "any": [each.strip() for each in words.split("|") if each.strip()]}
    return named | ({"pattern": pattern.removesuffix("|").strip().removesuffix("/")} if slash else {})


def _number(text: str) -> int | str | None:
    """Return a number; a text that is none is left to the validation, which explains it."""
    if not text:
        return None
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else text  # noqa: PLR2004


def _megabytes(text: str) -> int | None:
    """Return a quota with its unit, in megabytes. Raise `Invalid`."""
    if not text:
        return None
    found = _QUANTITY.fullmatch(text.replace(",", ""))
    if found is None or found[2].lower() not in _SIZES:
        raise Invalid("Quota: expected a size such as 20 GB")
    return int(found[1]) * _SIZES[found[2].lower()]


def _show_megabytes(number: int) -> str:
    """Return a size in the largest unit that divides it."""
    unit = next(unit for unit in ("tb", "gb", "mb") if number % _SIZES[unit] == 0)
    return f"{number // _SIZES[unit]} {unit.upper()}"
