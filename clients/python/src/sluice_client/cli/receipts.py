"""`sluice receipts`: get signed receipts from a running service, verify them anywhere, and change the signing key."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for cryptography)

import hashlib
import json
import sys
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from sluice_client.cli import output
from sluice_client.cli.options import Json, group_of
from sluice_client.cli.output import CommandRefused, Exit, exit_of
from sluice_client.cli.profiles import Target, target_of
from sluice_client.cli.server_commands import on_this_machine
from sluice_client.cli.service import ProfileOption, Service, Url, on_service, opened, segment

group = group_of("Get and verify signed receipts of files and erasures, and change the key that signs them.")

_MOST_BYTES: Final = 16 * 1024 * 1024
_CHUNK: Final = 1024 * 1024


@group.command()
@on_service
def get(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Id of the file: file_…")],
    *,
    service: Service,
    json_lines: Json = False,
) -> None:
    """Print the signed receipt of a stored file. The API key needs the scope `metadata`."""
    found = service.data("GET", f"/api/v1/files/{segment(file)}/receipt")
    if json_lines:
        output.as_json(found)
    else:
        output.line(found["receipt"])


@group.command()
def verify(
    receipt: Annotated[Path, typer.Argument(metavar="RECEIPT", help="File with the receipt; - reads standard input.")],
    *,
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="KEYS", help="File with the public keys; otherwise they come from the service."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Verify too that the receipt is about these bytes.")
    ] = None,
    url: Url = None,
    profile: ProfileOption = None,
    json_lines: Json = False,
) -> int:
    """Verify the signature of a receipt, and print what it states. Exits with 1 if it does not match.

    The public keys are at /.well-known/sluice-receipts.json of the service that signed. Keep a copy: with **--key**
    nothing is asked.
    """
    from sluice_client.errors import InvalidReceipt
    from sluice_client.verify import verify_receipt

    text = _receipt_in(sys.stdin.read(_MOST_BYTES) if str(receipt) == "-" else _read(receipt))
    keys = _keys_of(target_of(url, "none is needed", profile)) if key is None else _parsed(_read(key), key)
    try:
        stated = verify_receipt(text, keys)
    except ImportError as fault:
        raise CommandRefused("A library is missing: pip install 'sluice-client[receipts]'.") from fault
    except InvalidReceipt as fault:
        raise CommandRefused(f"The receipt is not valid. {fault}.") from fault
    if file is not None and _digest(file) != stated.get("sha256"):
        raise CommandRefused(f"The receipt is valid, and not about the bytes of {file}.")
    if json_lines:
        output.as_json(stated)
    else:
        output.line("The receipt is valid.", json.dumps(stated, indent=2, ensure_ascii=False))
    return Exit.DONE


@group.command()
def rotate() -> None:
    """Sign receipts with a new key from now on. The old public keys stay, so that old receipts can be verified.

    Running servers need no restart. If several machines have copies of the file, copy it to all of them.
    """
    on_this_machine("receipts").rotate()


def _read(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            return opened.read(_MOST_BYTES).decode()
    except (OSError, UnicodeDecodeError) as fault:
        raise CommandRefused(f"The file {path} cannot be read: {fault}.", Exit.USAGE) from fault


def _receipt_in(text: str) -> str:
    """Return the receipt in a text: the receipt itself, or the response of the API that has it."""
    if not text.lstrip().startswith("{"):
        return text.strip()
    try:
        response = json.loads(text)
        return str(response.get("data", response)["receipt"])
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise CommandRefused("The file holds no receipt.", Exit.USAGE) from fault


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError as fault:
        raise CommandRefused(f"The file {path} holds no public keys.", Exit.USAGE) from fault
    return found


def _keys_of(target: Target) -> dict[str, Any]:
    with opened(target, needs_key=False) as service:
        response = service.http.request("GET", "/.well-known/sluice-receipts.json")
    try:
        found = response.json()
    except ValueError:
        found = None
    if response.status != HTTPStatus.OK or not isinstance(found, dict):
        raise CommandRefused(f"What responds at {target.url} has no public keys of receipts.", exit_of(response.status))
    return found


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as opened:
            while chunk := opened.read(_CHUNK):
                digest.update(chunk)
    except OSError as fault:
        raise CommandRefused(f"The file {path} cannot be read: {fault.strerror}.", Exit.USAGE) from fault
    return digest.hexdigest()
