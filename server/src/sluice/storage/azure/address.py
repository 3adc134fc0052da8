"""Where a container is: in the public cloud, or at an endpoint that the tenant named."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

from sluice.storage.protocol import StoreError

# Both become part of a host name or a path, so nothing is allowed that could end either.
_ACCOUNT: Final = re.compile(r"[a-z0-9]{3,24}", re.ASCII)
_CONTAINER: Final = re.compile(r"(?=.{3,63}\Z)[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_HOST: Final = re.compile(r"[a-z0-9.-]+|[0-9a-f:.]+", re.ASCII)
_NO_ENDPOINT: Final = "The endpoint is an http or https address of a host, without path, user or query."
_PUBLIC: Final = "blob.core.windows.net"
_PUBLIC_LOGIN: Final = "https://login.microsoftonline.com"
# learn.microsoft.com/entra/identity-platform/authentication-national-cloud
_OTHER_CLOUDS: Final = {
    "blob.core.usgovcloudapi.net": "https://login.microsoftonline.us",
    "blob.core.chinacloudapi.cn": "https://login.partner.microsoftonline.cn",
}


@dataclass(frozen=True, slots=True)
class Address:
    """`endpoint` is scheme, host and port. The account is in the host, or, if `in_path`, the first part of the path.

    `login` is the origin where clients of a directory get their tokens, which are for `audience`, this account alone.
    """

    endpoint: str
    account: str
    container: str
    in_path: bool
    login: str
    audience: str

    @property
    def root(self) -> str:
        """The path of the account."""
        return f"/{self.account}" if self.in_path else ""

    def path(self, key: str = "") -> str:
        """Return the path of an object, or of the container, percent-encoded as it is sent and signed."""
        return quote(f"{self.root}/{self.container}{'/' if key else ''}{key}", safe="/-_.~")


def container_address(account: str, container: str, endpoint_url: str | None) -> Address:
    """Return the address of `container`; raise `StoreError` for an impossible one."""
    if not _ACCOUNT.fullmatch(account):
        raise StoreError("The name of a storage account is 3 to 24 lower-case letters and digits.")
    if not _CONTAINER.fullmatch(container):
        raise StoreError("The name of a container is 3 to 63 lower-case letters, digits and single hyphens.")
    if endpoint_url is None:
        origin = f"https://{account}.{_PUBLIC}"
        return Address(origin, account, container, in_path=False, login=_PUBLIC_LOGIN, audience=origin)
    try:
        parts = urlsplit(endpoint_url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise StoreError(_NO_ENDPOINT) from None
    bare = parts._replace(scheme="", netloc="").geturl() in {"", "/"}
    if parts.scheme not in {"http", "https"} or not _HOST.fullmatch(host) or "@" in parts.netloc or not bare:
        raise StoreError(_NO_ENDPOINT)
    in_path = _has_no_domain(host)
    if not in_path and not host.startswith(f"{account}."):
        raise StoreError(f"The host of the endpoint begins with the name of the storage account: {account}.")
    shown = f"[{host}]" if ":" in host else host
    cloud = next((domain for domain in _OTHER_CLOUDS if host.endswith(f".{domain}")), _PUBLIC)
    return Address(
        f"{parts.scheme}://{shown}{f':{port}' if port else ''}",
        account,
        container,
        in_path=in_path,
        login=_OTHER_CLOUDS.get(cloud, _PUBLIC_LOGIN),
        audience=f"https://{account}.{cloud}",
    )


def _has_no_domain(host: str) -> bool:
    """Return whether a host is an address or a single name, as an emulator has: the account is then in the path."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "." not in host
    return True
