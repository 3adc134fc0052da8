"""The style sheet and the script of the console, under addresses that name their content."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from sluice.api.shared_answer import SharedResponse
from sluice.errors import NotFound

_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_PREFIX: Final = "/console/static"


@dataclass(frozen=True, slots=True)
class ConsoleAsset:
    """A file that every browser may keep for ever, since a changed one has another address."""

    path: str
    content: bytes
    media_type: str


def _load() -> Mapping[str, ConsoleAsset]:
    found = {}
    for entry in sorted(files("sluice.console").joinpath("static").iterdir(), key=lambda entry: entry.name):
        stem, dot, extension = entry.name.rpartition(".")
        content = entry.read_bytes()
        path = f"{_PREFIX}/{stem}.{hashlib.sha256(content).hexdigest()[:12]}{dot}{extension}"
        found[entry.name] = ConsoleAsset(path, content, _TYPES[dot + extension])
    return MappingProxyType(found)


ASSETS: Final = _load()
_BY_PATH: Final = {asset.path: asset for asset in ASSETS.values()}


def asset_path(name: str) -> str:
    """Return the address of a file."""
    return ASSETS[name].path


async def serve_asset(request: Request) -> Response:
    """Return one file; raise `NotFound`."""
    asset = _BY_PATH.get(request.url.path)
    if asset is None:
        raise NotFound
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Cross-Origin-Resource-Policy": "same-origin"}
    return SharedResponse(asset.content, media_type=asset.media_type, headers=headers)
