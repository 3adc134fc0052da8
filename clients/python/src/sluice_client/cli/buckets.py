"""`sluice buckets`: the storage buckets of a tenant on a running service over HTTP."""

import os
import sys
from typing import Annotated, Any, Final

import typer

from sluice_client.cli import output
from sluice_client.cli.options import Json, Yes, group_of, tenant_id
from sluice_client.cli.output import CommandRefused, Exit
from sluice_client.cli.service import Service, given, on_service, segment

group = group_of("List, show, add, change and delete the buckets of a tenant. The API key needs the scope `admin`.")

_KEYS: Final = "/api/v1/api-keys"
Bucket = Annotated[str, typer.Argument(metavar="BUCKET", help="Id of the bucket: bkt_…")]
TenantOption = Annotated[
    str | None,
    typer.Option("--tenant", callback=tenant_id, metavar="TENANT", help="Id of the tenant. Default: that of the key."),
]
AccessKey = Annotated[str | None, typer.Option("--access-key-id", metavar="ID", help="Access key of the bucket.")]
SecretStdin = Annotated[
    bool,
    typer.Option(
        "--secret-stdin",
        help="Read the secret from standard input. Default: SLUICE_BUCKET_SECRET, a prompt.",
    ),
]
_SECRET: Final = "secret_access_key"  # noqa: S105  (the name of a field)
SecretField = Annotated[
    str,
    typer.Option(
        "--secret",
        metavar="FIELD",
        help="Which field of its provider the secret is.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Another field of the provider, such as account=acmeuploads."),
]


@group.command("list")
@on_service
def list_buckets(*, tenant: TenantOption = None, service: Service, json: Json = False) -> None:
    """List the buckets. With --json: one line per bucket."""
    output.listing(
        service.data("GET", _path(service, tenant)),
        ("BUCKET", "NAME", "PROVIDER", "IN", "REGION", "ACTIVE", "DEFAULT"),
        lambda one: (
            one["config_id"],
            one["name"],
            one["provider"],
            "/".join(filter(None, (one["default_bucket"], one["base_path"]))),
            one["region"] or "",
            output.plain(one["is_active"]),
            output.plain(one["is_default"]),
        ),
        json=json,
    )


@group.command()
@on_service
def show(bucket: Bucket, *, tenant: TenantOption = None, service: Service, json: Json = False) -> None:
    """Show one bucket, without its secret."""
    output.fields(service.data("GET", _path(service, tenant, bucket)), json=json)


@group.command()
@on_service
def create(
    *,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Its label, unique for the tenant.")],
    bucket: Annotated[str, typer.Option("--bucket", metavar="BUCKET", help="Its name at the provider.")],
    access_key_id: AccessKey = None,
    secret_stdin: SecretStdin = False,
    secret: SecretField = _SECRET,
    provider: Annotated[
        str | None,
        typer.Option("--provider", metavar="NAME", help="Its provider, as the API names it. Default: objstore_s3."),
    ] = None,
    settings: Settings = None,
    region: Annotated[str | None, typer.Option("--region", help="Its region. Default: us-east-1.")] = None,
    base_path: Annotated[
        str | None, typer.Option("--base-path", metavar="PATH", help="What the keys of all objects begin with.")
    ] = None,
    endpoint: Annotated[str | None, typer.Option("--endpoint", metavar="URL", help="Its address, if not AWS.")] = None,
    default: Annotated[bool, typer.Option("--default", help="Make it the default bucket. The first one is.")] = False,
    tenant: TenantOption = None,
    service: Service,
    json: Json = False,
) -> None:
    """Add a bucket. The service tries it first: it writes, reads and deletes a small object."""
    body = given(
        name=name,
        access_key_id=access_key_id,
        default_bucket=bucket,
        region=region,
        base_path=base_path,
        endpoint_url=endpoint,
        set_as_default=default or None,
        provider=provider,
    )
    body |= _settings(settings) | {secret: _secret(from_stdin=secret_stdin)}
    made = service.data("POST", _path(service, tenant), body=body)
    output.done(made, f"Added the bucket {made['config_id']}.", json=json)


@group.command()
@on_service
def update(
    bucket: Bucket,
    *,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Its new label.")] = None,
    access_key_id: AccessKey = None,
    secret_stdin: SecretStdin = False,
    secret: SecretField = _SECRET,
    settings: Settings = None,
    active: Annotated[bool | None, typer.Option("--active/--inactive", help="Whether it takes uploads.")] = None,
    tenant: TenantOption = None,
    service: Service,
    json: Json = False,
) -> None:
    """Change the label, the credentials together, or the state of a bucket."""
    body = given(name=name, access_key_id=access_key_id, is_active=active) | _settings(settings)
    if access_key_id is not None or secret_stdin or settings or secret != _SECRET:
        body[secret] = _secret(from_stdin=secret_stdin)
    if not body:
        raise CommandRefused("Nothing to change: name --name, --access-key-id, --active or --inactive.", Exit.USAGE)
    output.done(
        service.data("PATCH", _path(service, tenant, bucket), body=body), f"Changed the bucket {bucket}.", json=json
    )


@group.command("set-default")
@on_service
def set_default(bucket: Bucket, *, tenant: TenantOption = None, service: Service, json: Json = False) -> None:
    """Make a bucket the default one, instead of that which was."""
    found = service.data("POST", f"{_path(service, tenant, bucket)}/set-default")
    output.done(found, f"The bucket {bucket} is the default one.", json=json)


@group.command()
@on_service
def delete(
    bucket: Bucket, *, yes: Yes = False, tenant: TenantOption = None, service: Service, json: Json = False
) -> None:
    """Forget a bucket and its credentials. Its objects stay. The default bucket and bound ones cannot be deleted."""
    path = _path(service, tenant, bucket)
    output.confirm(f"Forget the bucket {bucket} and its credentials", yes=yes)
    envelope = service.envelope("DELETE", path)
    output.done(envelope["data"], f"{envelope['message']}.", json=json)


def _path(service: Service, tenant: str | None, bucket: str | None = None) -> str:
    """Return the path of the buckets, or of one, of a tenant; None for the tenant of the credential."""
    if tenant is None:
        # No route names the caller's tenant; each of its keys does.
        keys: list[dict[str, Any]] = service.data("GET", _KEYS, query={"page_size": 1})
        if not keys:
            raise CommandRefused("The tenant has no API key that names it: give --tenant.", Exit.USAGE)
        tenant = service.data("GET", f"{_KEYS}/{segment(keys[0]['api_key_id'])}")["tenant_id"]
    path = f"/api/v1/tenants/{segment(str(tenant))}/storage-configs"
    return path if bucket is None else f"{path}/{segment(bucket)}"


def _settings(pairs: list[str] | None) -> dict[str, str]:
    """Return the fields of `--set`."""
    split = [pair.partition("=") for pair in pairs or ()]
    for name, equals, _ in split:
        if not name or not equals:
            raise CommandRefused("--set is FIELD=VALUE, such as account=acmeuploads.", Exit.USAGE)
    return {name: value for name, _, value in split}


def _secret(*, from_stdin: bool) -> str:
    """Return the secret of a bucket: it is no option, because other users of the machine see options."""
    if from_stdin:
        secret = sys.stdin.read().strip()  # the key of a service account has several lines
    elif "SLUICE_BUCKET_SECRET" in os.environ:
        secret = os.environ["SLUICE_BUCKET_SECRET"]
    elif sys.stdin.isatty() and sys.stderr.isatty():
        from getpass import getpass  # noqa: PLC0415  (asked for on a terminal only)

        secret = getpass("Secret of the bucket (not shown): ", stream=sys.stderr).strip()
    else:
        raise CommandRefused(
            "Cannot prompt for the secret of the bucket: put it into SLUICE_BUCKET_SECRET, or give --secret-stdin.",
            Exit.USAGE,
        )
    return secret
