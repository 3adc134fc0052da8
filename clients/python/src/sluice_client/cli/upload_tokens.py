"""`sluice upload-tokens`: tokens with which strangers upload, on a running service over HTTP."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from sluice_client.cli import output
from sluice_client.cli.options import Json, Yes, group_of, pairs_in
from sluice_client.cli.service import BodyFile, Fields, Service, body_of, complete_context, given, on_service, segment

group = group_of("Create, list, show and revoke upload tokens. The API key needs the scope `upload`.")

_PATH: Final = "/api/v1/upload-tokens"


class _Method(StrEnum):
    FORM = "form"
    TUS = "tus"


TokenId = Annotated[str, typer.Argument(metavar="TOKEN", help="Id of the token, not its text.")]


@group.command()
@on_service
def create(
    *,
    context: Annotated[
        str,
        typer.Option(
            "--context", metavar="KEY", autocompletion=complete_context, help="The context that it may upload into."
        ),
    ],
    expires_in: Annotated[int | None, typer.Option("--expires-in", help="Seconds until it expires.")] = None,
    max_files: Annotated[int | None, typer.Option("--max-files", help="Most files that it may store.")] = None,
    max_bytes: Annotated[int | None, typer.Option("--max-file-size-bytes", help="Largest file.")] = None,
    extension: Annotated[
        list[str] | None, typer.Option("--extension", metavar="EXT", help="Allow this extension; again for more.")
    ] = None,
    origin: Annotated[
        list[str] | None, typer.Option("--origin", metavar="ORIGIN", help="Pages that may use it; again for more.")
    ] = None,
    method: Annotated[list[_Method] | None, typer.Option("--method", help="How it may upload; again for more.")] = None,
    end_user: Annotated[str | None, typer.Option("--end-user", metavar="NAME", help="Who uploads with it.")] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option("--metadata", metavar="NAME=VALUE", help="Stored with each file; again for more."),
    ] = None,
    page_sentence: Annotated[
        str | None, typer.Option("--page-sentence", metavar="TEXT", help="What its upload page says above the form.")
    ] = None,
    field: Fields = [],  # noqa: B006  (typer copies it)
    body: BodyFile = None,
    service: Service,
    json: Json = False,
) -> None:
    """Create a token, and print its text, which is shown once."""
    named = given(
        context=context,
        expires_in=expires_in,
        max_files=max_files,
        max_file_size_bytes=max_bytes,
        allowed_extensions=extension,
        allowed_origins=origin,
        methods=method,
        end_user=end_user,
        metadata=pairs_in(metadata, "--metadata") or None,
        page_sentence=page_sentence,
    )
    made = service.data("POST", _PATH, body=body_of(named, field, body))
    if json:
        output.as_json(made)
        return
    output.say(f"Created {made['token_id']} until {made['expires_at']}. Its page: {made['form_url']}. Its text:")
    output.line(made["token"])


@group.command("list")
@on_service
def list_tokens(
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Most tokens to print.")] = 100,
    service: Service,
    json: Json = False,
) -> None:
    """List tokens, newest first. With --json: one line per token."""
    output.listing(
        service.pages(_PATH, {}, limit),
        ("TOKEN", "CONTEXT", "STATUS", "STORED", "OF", "EXPIRES", "END USER"),
        lambda one: (
            one["token_id"],
            one["context"],
            one["status"],
            str(one["files_stored"]),
            str(one["max_files"]),
            one["expires_at"],
            one["end_user"] or "-",
        ),
        json=json,
    )


@group.command()
@on_service
def show(token: TokenId, *, service: Service, json: Json = False) -> None:
    """Show one token, with the outcome of each file that was sent with it."""
    output.fields(service.data("GET", f"{_PATH}/{segment(token)}"), json=json)


@group.command()
@on_service
def revoke(token: TokenId, *, yes: Yes = False, service: Service, json: Json = False) -> None:
    """Revoke a token permanently."""
    output.confirm(f"Revoke the upload token {token} for ever", yes=yes)
    found = service.data("DELETE", f"{_PATH}/{segment(token)}")
    output.done(found, f"The upload token {token} is revoked.", json=json)
