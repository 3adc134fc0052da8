"""A real OIDC issuer for tests, npm's `oidc-provider`. `make servers` installs its packages when node and npm exist."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.servers import daemon, free_port, listens

_FOLDER = Path(__file__).parent / "oidc"
AUDIENCE = "urn:sluice:api"


@dataclass(frozen=True)
class OidcProvider:
    """A running issuer. Its clients `first` and `second` belong to the tenants `ten_of_first` and `ten_of_second`."""

    port: int
    log: Path

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a service that trusts this issuer."""
        return {
            "OIDC_ISSUER": self.issuer,
            "OIDC_JWKS_URL": f"{self.issuer}/jwks",
            "OIDC_ALGORITHMS": "RS256",
            "OIDC_PROVISION": "true",
            "JWT_AUDIENCE": AUDIENCE,
        }

    @property
    def sign_in_settings(self) -> dict[str, str]:
        """The settings of a service to whose console people sign in here."""
        return {
            **self.settings,
            "CONSOLE_OIDC_CLIENT_ID": "console",
            "CONSOLE_OIDC_CLIENT_SECRET": "console-secret-0123456789",
        }

    @property
    def times_asked(self) -> int:
        """How often its keys were requested."""
        return self.log.read_text().count("keys requested")

    def token(self, client: str, scope: str) -> str:
        """Return an access token for one of the two clients."""
        form = {"grant_type": "client_credentials", "scope": scope}
        response = httpx.post(
            f"{self.issuer}/token", data=form, auth=(client, f"{client}-secret-0123456789"), timeout=20
        )
        return str(response.raise_for_status().json()["access_token"])


@contextmanager
def running_oidc_provider(folder: Path, port: int | None = None) -> Iterator[OidcProvider]:
    """Run the issuer with new keys until the block ends. Skips the test when its packages are missing."""
    if shutil.which("node") is None or not (_FOLDER / "node_modules").exists():
        pytest.skip("this setup has no oidc-provider: `make servers` installs it where node and npm are")
    provider = OidcProvider(port or free_port(), folder / "issuer.log")
    program = ["node", str(_FOLDER / "issuer.mjs"), str(provider.port)]
    with ExitStack() as stack:
        try:
            stack.enter_context(daemon(program, provider.log, ready=lambda: listens(provider.port)))
        except RuntimeError:  # Node was seen to hang at its start on a busy machine, before it wrote anything
            if provider.log.read_bytes():
                raise
            stack.enter_context(daemon(program, provider.log, ready=lambda: listens(provider.port)))
        yield provider
