"""Options, arguments and the kind of group that several commands share."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import typer

MOMENT: Final = "a time ago (30m, 12h, 7d, 2w), or a date and time, in UTC if it names no zone"
_NAME_MAX: Final = 255
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_COMMENT_MAX: Final = 1000
_TENANT_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PLAIN: Final = re.compile(
    r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]*"
)  # no controls but line ends and tabs


def printable(value: str | None) -> str | None:
    """Return a name unchanged. Raise a usage error for one that could not be shown again."""
    if value is not None and not (value.strip() and len(value) <= _NAME_MAX and value.isprintable()):
        raise typer.BadParameter(f"expected 1 to {_NAME_MAX} printable characters")
    return value


def tenant_id(value: str | None) -> str | None:
    """Return the id of a tenant unchanged. Raise a usage error for a text that cannot be one."""
    if value is not None and not _TENANT_ID.fullmatch(value):
        raise typer.BadParameter("expected 1 to 64 letters, digits, hyphens and underscores")
    return value


def past_moment(text: str | None) -> str | None:
    """Return a moment as the API reads it; raise a usage error."""
    if text is None:
        return None
    relative = re.fullmatch(r"([0-9]{1,4})([mhdw])", text)
    if relative:
        return (datetime.now(UTC) - timedelta(**{_UNITS[relative[2]]: int(relative[1])})).isoformat()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as fault:
        raise typer.BadParameter(
            "expected a time ago such as 30m, 12h, 7d or 2w, or a date such as 2026-01-31"
        ) from fault
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def pairs_in(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """Return what NAME=VALUE options say; raise a usage error."""
    pairs = [text.partition("=") for text in texts or ()]
    if not all(name and equals for name, equals, _ in pairs):
        raise typer.BadParameter("expected NAME=VALUE", param_hint=option)
    return {name: value for name, _, value in pairs}


def comment_text(value: str) -> str:
    """Return a comment unchanged. Raise a usage error for one that the audit log does not take."""
    if not value.strip() or len(value) > _COMMENT_MAX or not _PLAIN.fullmatch(value):
        raise typer.BadParameter(f"expected 1 to {_COMMENT_MAX} printable characters")
    return value


Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without a question. Scripts need it.")]
Name = Annotated[str, typer.Option(callback=printable, metavar="NAME", help="Name for people; need not be unique.")]
NameOrNone = Annotated[str | None, typer.Option(callback=printable, metavar="NAME", help="Name of the tenant.")]
Tenant = Annotated[str, typer.Option("--tenant", callback=tenant_id, metavar="TENANT", help="Id of the tenant: ten_…")]
TenantArgument = Annotated[str, typer.Argument(callback=tenant_id, metavar="TENANT", help="Id of the tenant: ten_…")]
TenantOrNone = Annotated[
    str | None, typer.Option("--tenant", callback=tenant_id, metavar="TENANT", help="Only files of this tenant.")
]


def group_of(words: str) -> typer.Typer:
    """Return a group of commands that shows its help when called without one."""
    group = typer.Typer(help=words)

    @group.callback(invoke_without_command=True)
    def alone(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help(), nl=False)

    return group
