"""`sluice token`: sign a JWT with the key of this machine."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the database's library)

from typing import Annotated

import typer

from sluice.access import Scope
from sluice.cli.environment import on_database, task_settings
from sluice.cli.tenants import require_tenant
from sluice_client.cli import output
from sluice_client.cli.options import Tenant, printable
from sluice_client.cli.output import CommandRefused, Exit


def token(
    *,
    tenant: Tenant,
    subject: Annotated[
        str,
        typer.Option(callback=printable, help="Id of the user whom the token represents; recorded as the uploader."),
    ],
    name: Annotated[
        str | None,
        typer.Option(callback=printable, help="The user's name, shown beside the files. Default: the subject."),
    ] = None,
    scope: Annotated[
        list[Scope], typer.Option("--scope", help="What the token may do; give it again for more. `admin` is all.")
    ],
    expires_in: Annotated[int, typer.Option(min=1, max=31_536_000, help="Seconds until it expires.")] = 3600,
) -> None:
    """Print a JWT signed by this machine's own key (made by **sluice init** or the first start), and nothing else.

    It cannot be revoked: it works until it expires, or the tenant is suspended.
    """
    from sluice.kit.clock import utc_now
    from sluice.wiring.start import load_signing_key, local_rules

    on_database(lambda database: require_tenant(database, tenant))
    settings = task_settings()
    try:
        text = load_signing_key(settings).sign(
            local_rules(settings),
            tenant_id=tenant,
            subject=subject,
            name=name or subject,
            scopes=[one.value for one in scope],
            lifetime_seconds=expires_in,
            now=utc_now(),
        )
    except ValueError as fault:
        raise CommandRefused(f"This token cannot be signed: {fault}.", Exit.USAGE) from fault
    output.line(text)
