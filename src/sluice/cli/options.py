"""Options, arguments and the kind of group that several commands share. What a command does with them is its own affair."""

from typing import Annotated, Final

import typer

_NAME_MAX: Final = 255


def printable(value: str | None) -> str | None:
    """Answer a name as it was given; raises the usage error of one that could not be shown again."""
    if value is not None and not (value.strip() and len(value) <= _NAME_MAX and value.isprintable()):
        raise typer.BadParameter(f"expected 1 to {_NAME_MAX} printable characters")
    return value


Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Name = Annotated[str, typer.Option(callback=printable, metavar="NAME", help="Name for people; need not be unique.")]
NameOrNone = Annotated[str | None, typer.Option(callback=printable, metavar="NAME", help="Name of the tenant.")]
Tenant = Annotated[str, typer.Option("--tenant", metavar="TENANT", help="Id of the tenant: ten_…")]
TenantArgument = Annotated[str, typer.Argument(metavar="TENANT", help="Id of the tenant: ten_…")]


def group_of(words: str) -> typer.Typer:
    """Answer a group of commands, which shows its help when it is called without one."""
    group = typer.Typer(help=words)

    @group.callback(invoke_without_command=True)
    def alone(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help(), nl=False)

    return group
