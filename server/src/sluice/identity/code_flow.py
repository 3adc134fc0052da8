"""Signing in at an OIDC issuer: the authorization code flow with PKCE (OpenID Connect Core 3.1, RFC 7636, RFC 9207).

The ID token decides who somebody is, of which tenant, and what they may do. It is verified as any token of the issuer,
but for its audience, which is the console's client.
"""

import asyncio
import hashlib
import ssl
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import httpx

from sluice.identity.oidc import check_url
from sluice.identity.protocol import Claims, InvalidToken, IssuerUnavailable, SignInAttempt, TokenVerifier
from sluice.identity.tokens import MAX_ID_TOKEN_LENGTH, parse_token
from sluice.kit.strict_json import NotStrictJson, read_json

_TIMEOUT_SECONDS: Final = 5.0
_MAX_BYTES: Final = 256 * 1024
_KEPT_SECONDS: Final = 600.0
_HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "sluice"}


@dataclass(frozen=True, slots=True)
class _Endpoints:
    """The metadata that the issuer publishes."""

    authorization: str
    token: str
    names_itself: bool  # in each response, so that a response of another issuer is not taken for its own


class CodeFlow:
    """A `SignInFlow` for one issuer. `verifier` is for tokens whose audience is `client_id`."""

    def __init__(
        self,
        verifier: TokenVerifier,
        *,
        client_id: str,
        client_secret: str | None,
        scopes: Iterable[str],
        tls: ssl.SSLContext | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without a secret the client is a public one: PKCE alone binds the code to this service."""
        self._verifier = verifier
        self._issuer = verifier.issuer
        self._client_id = client_id
        self._client_secret = client_secret
        self._scopes = " ".join(dict.fromkeys(("openid", *scopes)))
        self._monotonic = monotonic
        self._endpoints: _Endpoints | None = None
        self._read_at = float("-inf")
        check_url(self._issuer)
        self._http = httpx.AsyncClient(
            headers=_HEADERS,
            timeout=_TIMEOUT_SECONDS,
            follow_redirects=False,
            trust_env=False,
            verify=True if tls is None else tls,
            limits=httpx.Limits(max_connections=10, max_keepalive_connections=0),
        )

    async def address(self, attempt: SignInAttempt, redirect_uri: str) -> str:
        """See `SignInFlow.address`."""
        endpoints = await self._discover()
        challenge = urlsafe_b64encode(hashlib.sha256(attempt.verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "scope": self._scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        joint = "&" if urlsplit(endpoints.authorization).query else "?"
        return f"{endpoints.authorization}{joint}{urlencode(asked)}"

    async def finish(self, attempt: SignInAttempt, redirect_uri: str, response: Mapping[str, str]) -> Claims:
        """See `SignInFlow.finish`."""
        if not compare_digest(response.get("state", "").encode(), attempt.state.encode()):
            raise InvalidToken("the response belongs to another attempt to sign in")
        endpoints = await self._discover()
        if response.get("iss", None if endpoints.names_itself else self._issuer) != self._issuer:
            raise InvalidToken("the response is of another issuer")
        code = response.get("code")
        if not code:
            raise InvalidToken("the issuer refused to sign in")
        token = await self._exchange(endpoints, code, redirect_uri, attempt)
        claims = await self._verifier.verify(token)
        signed = parse_token(token, MAX_ID_TOKEN_LENGTH).claims
        nonce = signed.get("nonce")
        if not isinstance(nonce, str) or not compare_digest(nonce.encode(), attempt.nonce.encode()):
            raise InvalidToken("the token is of another attempt to sign in")
        # OpenID Connect Core 3.1.3.7: a token for several audiences names the client that may use it.
        audience = signed.get("aud")
        is_for_others = isinstance(audience, list) and set(audience) != {self._client_id}
        if signed.get("azp", None if is_for_others else self._client_id) != self._client_id:
            raise InvalidToken("the token is meant for another client")
        return claims

    async def aclose(self) -> None:
        """See `SignInFlow.aclose`."""
        await self._http.aclose()
        await self._verifier.aclose()

    async def _exchange(self, endpoints: _Endpoints, code: str, redirect_uri: str, attempt: SignInAttempt) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
        }
        auth: httpx.BasicAuth | None = None
        if self._client_secret is None:
            form["client_id"] = self._client_id
        else:  # both are form-encoded first (RFC 6749 section 2.3.1)
            auth = httpx.BasicAuth(quote(self._client_id, safe=""), quote(self._client_secret, safe=""))
        request = self._http.build_request("POST", endpoints.token, data=form)
        status, body = await self._read(request, auth)
        token = body.get("id_token")
        if status != httpx.codes.OK or not isinstance(token, str):
            raise InvalidToken(f"the issuer gave no token for the code (status {status})")
        return token

    async def _discover(self) -> _Endpoints:
        if self._endpoints is not None and self._monotonic() - self._read_at < _KEPT_SECONDS:
            return self._endpoints
        url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        status, body = await self._read(self._http.build_request("GET", url), None)
        if status != httpx.codes.OK or body.get("issuer") != self._issuer:
            raise IssuerUnavailable(f"{url} does not describe the issuer")
        found = [body.get(f"{name}_endpoint") for name in ("authorization", "token")]
        try:
            for address in found:
                check_url(str(address))
        except ValueError as fault:
            raise IssuerUnavailable(f"{url}: {fault}") from fault
        names_itself = body.get("authorization_response_iss_parameter_supported") is True
        self._endpoints, self._read_at = _Endpoints(str(found[0]), str(found[1]), names_itself), self._monotonic()
        return self._endpoints

    async def _read(self, request: httpx.Request, auth: httpx.BasicAuth | None) -> tuple[int, Mapping[str, Any]]:
        """Return status and JSON object of a response. Raise `IssuerUnavailable`, also for a failure of the issuer."""
        raw = bytearray()
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                response = await self._http.send(request, auth=auth, stream=True)
                try:
                    async for chunk in response.aiter_raw():
                        raw += chunk
                        if len(raw) > _MAX_BYTES:
                            raise IssuerUnavailable(f"{request.url} sent more than {_MAX_BYTES} bytes")
                finally:
                    await response.aclose()
            body = read_json(bytes(raw))
        except (httpx.HTTPError, TimeoutError, NotStrictJson) as fault:
            raise IssuerUnavailable(f"{request.url} could not be read ({type(fault).__name__})") from fault
        if response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR or not isinstance(body, dict):
            raise IssuerUnavailable(f"{request.url} responded with {response.status_code}")
        return response.status_code, body
