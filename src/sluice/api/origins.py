"""Downloads on a host of their own: which requests a host takes when there are two. What a download is, stands in `routes.downloads`.

A browser that is made to show a stored file, whatever the headers say, then shows it where no credential is ever sent.
"""

from typing import Final
from urllib.parse import urlsplit

from starlette.types import Scope

from sluice.errors import NotFound

_DOWNLOADS: Final = "/api/v1/downloads/"


def require_host(scope: Scope, download_host: str) -> None:
    """Raise `NotFound` unless this is a download asked of `download_host`, or anything else asked of another host."""
    if (_host_of(scope) == download_host) != scope["path"].startswith(_DOWNLOADS):
        raise NotFound


def _host_of(scope: Scope) -> str | None:
    """Answer the host's name in small letters, without the port, which a proxy may have changed."""
    named: bytes = next((value for name, value in scope["headers"] if name == b"host"), b"")
    try:
        return urlsplit(f"//{named.decode('latin-1')}").hostname
    except ValueError:
        return None
