"""The commands that run and set up the service: serve, work, init, migrate, doctor, audit, backup, restore, migrate-bucket. Their words and options only; each loads what it runs."""

# ruff: noqa: PLC0415  (commands load their work when asked: `--help` must not wait for every engine's library)

from pathlib import Path
from typing import Annotated, Literal

import typer

from sluice.cli.options import Json, NameOrNone, Tenant

_SERVICE = "Service"


def add_to(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    for command in (serve, work, init, migrate, doctor, audit, backup, restore):
        app.command(rich_help_panel=_SERVICE)(command)
    app.command("migrate-bucket", rich_help_panel=_SERVICE)(migrate_bucket)


def serve(context: typer.Context) -> None:
    """Serve the API, with the worker inside.

    Migrates the database, listens on SLUICE_HOST:SLUICE_PORT (127.0.0.1:8000) and keeps everything in SLUICE_DATA_DIR (.data).
    The very first start makes a tenant and an admin key and shows both once, with three curl lines to try; with
    SLUICE_PRODUCTION it makes neither: run **sluice init**.

    Ctrl-C or SIGTERM drains: no new connections, and uploads under way may finish within SLUICE_DRAIN_SECONDS. A second Ctrl-C does not wait.
    """
    from sluice.cli.configured import settings_for_a_service
    from sluice.wiring.ahead import Launch, launch_ahead

    settings = settings_for_a_service()
    launch: Launch = context.obj or launch_ahead
    launched = launch()  # loads on another core while this one loads what follows
    from sluice.cli.serving import serve

    serve(settings, launched)


def work(context: typer.Context) -> None:
    """Run the worker alone: purge deleted files, settle what crashes left behind, forget old decisions.

    Any number of workers may run beside any number of servers; set SLUICE_WORKER_INSIDE=false on the servers then. Ctrl-C or
    SIGTERM ends it after the round under way.
    """
    from sluice.cli.configured import settings_for_a_service
    from sluice.wiring.ahead import Launch, launch_ahead

    settings = settings_for_a_service()
    launch: Launch = context.obj or launch_ahead
    launched = launch() if settings.rescan_per_second else None
    from sluice.cli.working import work

    work(settings, launched)


def init(
    *,
    name: NameOrNone = None,
    plan: Annotated[Literal["free", "unlimited"], typer.Option(help="Plan of a tenant that is made.")] = "unlimited",
    json: Json = False,
) -> int:
    """Set the service up: migrate, make the key files, make sure of a tenant, and give an admin key for it.

    Run it as often as you like: a tenant called NAME is made once and then found again; without --name it is the oldest tenant, or a
    new one called `default`. Each run gives a **new** admin key,
    since no key can be shown twice; the older ones stay valid (**sluice keys list**, **sluice keys revoke**).

    With --json: tenant_id, tenant_name, plan, api_key_id, api_key, and `created`, which tells whether the tenant is new.
    """
    from sluice.cli.configured import settings_for_a_task
    from sluice.cli.initialising import init

    return init(settings_for_a_task(), name, plan, json=json)


def migrate() -> int:
    """Bring the database to the schema of this release, keeping its data.

    `serve`, `work` and `init` do it too. Several may run at once; one of them does the work.
    """
    from sluice.cli.configured import settings_for_a_task
    from sluice.cli.initialising import migrate

    return migrate(settings_for_a_task())


def audit(
    *,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Check besides what must never be: quotas and totals that do not add up, work that no worker did, no default.",
        ),
    ] = False,
    contents: Annotated[
        bool, typer.Option("--contents", help="Read every object and compare its SHA-256, not only its size.")
    ] = False,
    mend: Annotated[
        bool,
        typer.Option(
            "--mend",
            help="Delete objects that no file has, and count lists anew. Never where two installations share a bucket's folder.",
        ),
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the last audit was interrupted.")] = False,
    json: Json = False,
) -> int:
    """Compare the records of files with the objects in every bucket, in both directions.

    It reads along beside a running service, store by store, in bounded memory, and changes nothing unless **--mend** is given. Only objects
    are looked at whose keys hold the id of a file; what else lies in a bucket is not ours. Every difference is one line: `missing` and
    `changed` objects of stored files, `stray` objects without a file, `unreachable` stores.

    Ends with 0 when all is well, with 1 when there is a difference. With --json: one line per difference, then one with the sums.
    """
    from sluice.cli.auditing import audit
    from sluice.cli.configured import settings_for_a_task

    return audit(settings_for_a_task(), strict=strict, contents=contents, mend=mend, resume=resume, json=json)


def backup(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the backup is, or will be.")]) -> int:
    """Back up the embedded database and the local store into a folder, while the service runs.

    The database first, by SQLite's online backup, then every object that it names, held to its SHA-256. Into the same folder again, only what
    is new is copied. Neither the key files nor tenants' own buckets are part of it.
    """
    from sluice.cli.backing_up import backup
    from sluice.cli.configured import settings_for_a_task

    return backup(settings_for_a_task(), folder.absolute())


def restore(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the backup is.")]) -> int:
    """Restore a backup into an empty SLUICE_DATA_DIR, every object held to its SHA-256.

    Uploads that were under way when the backup was made are cleaned up by the worker. Put the key files back besides.
    """
    from sluice.cli.backing_up import restore
    from sluice.cli.configured import settings_for_a_task

    return restore(settings_for_a_task(), folder.absolute())


def migrate_bucket(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="Id of the bucket (bkt_…), or `platform` for the service's own store.")
    ],
    target: Annotated[str, typer.Argument(metavar="TO", help="Id of another bucket of the tenant, or `platform`.")],
    *,
    tenant: Tenant,
) -> int:
    """Move a tenant's stored files from one bucket to another, while the service runs.

    Each object is copied, held to its SHA-256, and only then is its file switched; run it again for those that failed. Bind the contexts to
    the new bucket first, or later uploads go to the old one. The old objects stay, since links that were given out lead there: an hour later
    **sluice audit --mend** deletes them.
    """
    from sluice.cli.configured import settings_for_a_task
    from sluice.cli.moving import migrate_bucket

    return migrate_bucket(settings_for_a_task(), tenant, source, target)


def doctor(context: typer.Context, *, json: Json = False) -> int:
    """Ask every engine how it is: reachable, version, limits, and what is wrong with it.

    Ends with 1 when one is down. It starts what the service would start, with the same settings, beside a running service or without one.
    """
    from sluice.cli.configured import settings_for_a_task
    from sluice.wiring.ahead import Launch, launch_ahead

    settings = settings_for_a_task()
    launch: Launch = context.obj or launch_ahead
    launched = launch()  # loads on another core while this one loads what follows
    from sluice.cli.diagnosing import doctor

    return doctor(settings, json=json, launched=launched)
