"""Issuers that send what Keycloak 26 and Authentik 2025 send: their documents, keys and ID tokens, field by field.

The shapes are those of their documentation and of their sources; the keys are made here.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.identity.tokens import b64, ec_key, forge, jwk, key_for, rsa_key

CLIENT = "sluice-console"
# Members of both issuers' JWKs that name a certificate; nothing reads them
_CERTIFICATE = {"x5c": [b64(b"a certificate")], "x5t": b64(bytes(20)), "x5t#S256": b64(bytes(32))}


@dataclass
class DescribedIssuer:
    """An issuer below `http://127.0.0.1:<port>` whose documents are in `documents`, by their paths.

    `claims` are those of the next ID token, `kid` and `algorithm` are of the key that signs it.
    """

    port: int
    issuer_path: str
    algorithm: str
    kid: str
    documents: dict[str, Any] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def issuer(self) -> str:
        return f"{self.host}{self.issuer_path}"

    def sign(self, claims: Mapping[str, Any]) -> str:
        header = {"alg": self.algorithm, "typ": "JWT", "kid": self.kid}
        return forge(key_for(self.algorithm, self.kid), header, dict(claims), algorithm=self.algorithm)


@contextmanager
def running_keycloak() -> Iterator[DescribedIssuer]:
    """Run an issuer in the shape of a Keycloak realm that signs with RS256, whose realm has a key for encryption too."""
    with _running("/realms/acme", "RS256", "Xk3u0lT1nZ0Yv0yVtJc7Yc4r8sWm2oQb1dKf5hGe6aA") as keycloak:
        base = f"{keycloak.issuer}/protocol/openid-connect"
        path = f"{keycloak.issuer_path}/protocol/openid-connect"
        encrypts = jwk(rsa_key("enc"), kid="0aQm", alg="RSA-OAEP", use="enc") | _CERTIFICATE
        signs = jwk(rsa_key(keycloak.kid), kid=keycloak.kid, alg="RS256", use="sig")
        keycloak.documents = {
            f"{keycloak.issuer_path}/.well-known/openid-configuration": {
                "issuer": keycloak.issuer,
                "authorization_endpoint": f"{base}/auth",
                "token_endpoint": f"{base}/token",
                "introspection_endpoint": f"{base}/token/introspect",
                "userinfo_endpoint": f"{base}/userinfo",
                "end_session_endpoint": f"{base}/logout",
                "frontchannel_logout_supported": True,
                "jwks_uri": f"{base}/certs",
                "grant_types_supported": ["authorization_code", "client_credentials", "refresh_token"],
                "acr_values_supported": ["0", "1"],
                "response_types_supported": ["code", "none", "id_token", "code id_token"],
                "subject_types_supported": ["public", "pairwise"],
                "id_token_signing_alg_values_supported": ["PS384", "RS384", "EdDSA", "ES256", "RS256", "HS256"],
                "token_endpoint_auth_methods_supported": ["private_key_jwt", "client_secret_basic"],
                "claims_supported": ["iss", "sub", "aud", "exp", "iat", "auth_time", "name", "email", "acr", "azp"],
                "claims_parameter_supported": True,
                "scopes_supported": ["openid", "profile", "email", "roles", "basic", "acr"],
                "code_challenge_methods_supported": ["plain", "S256"],
                "authorization_response_iss_parameter_supported": True,
                "mtls_endpoint_aliases": {"token_endpoint": f"{base}/token"},
            },
            f"{path}/certs": {"keys": [encrypts, signs | _CERTIFICATE]},
            f"{path}/token": {
                "expires_in": 300,
                "refresh_expires_in": 1800,
                "token_type": "Bearer",
                "not-before-policy": 0,
                "session_state": "9f00242d-9199-4a0b-978a-5f9c73968385",
                "scope": "openid profile email",
            },
        }
        keycloak.claims = {
            "auth_time": int(time.time()) - 5,
            "jti": "6b1c7c7e-0e6a-4a3f-8a58-2f7b5a2d7a10",
            "iss": keycloak.issuer,
            "aud": CLIENT,
            "sub": "139d80d5-0cf9-4edb-a2ab-8aed2c121acd",
            "typ": "ID",
            "azp": CLIENT,
            "sid": "9f00242d-9199-4a0b-978a-5f9c73968385",
            "at_hash": "SVG6Dl6cqfTy6IxzBy1urw",
            "acr": "1",
            "email_verified": True,
            "realm_access": {"roles": ["default-roles-acme", "offline_access", "uma_authorization"]},
            "name": "Ada Lovelace",
            "preferred_username": "ada",
            "given_name": "Ada",
            "family_name": "Lovelace",
            "email": "ada@acme.example",
            "tenant_id": "ten_acme",
        }
        yield keycloak


@contextmanager
def running_authentik() -> Iterator[DescribedIssuer]:
    """Run an issuer in the shape of an Authentik provider that signs with ES256. Its name ends with a slash."""
    with _running("/application/o/sluice/", "ES256", "b3a1f7c5d9e24c8f9a0b6d7e8f901234") as authentik:
        base = f"{authentik.host}/application/o"
        signs = jwk(ec_key(authentik.kid), kid=authentik.kid, alg="ES256", use="sig")
        authentik.documents = {
            f"{authentik.issuer_path}.well-known/openid-configuration": {
                "issuer": authentik.issuer,
                "authorization_endpoint": f"{base}/authorize/",
                "token_endpoint": f"{base}/token/",
                "userinfo_endpoint": f"{base}/userinfo/",
                "end_session_endpoint": f"{authentik.issuer}end-session/",
                "introspection_endpoint": f"{base}/introspect/",
                "revocation_endpoint": f"{base}/revoke/",
                "device_authorization_endpoint": f"{base}/device/",
                "response_types_supported": ["code", "id_token", "id_token token", "code token", "code id_token"],
                "jwks_uri": f"{authentik.issuer}jwks/",
                "grant_types_supported": ["authorization_code", "refresh_token", "implicit", "client_credentials"],
                "id_token_signing_alg_values_supported": ["ES256"],
                "subject_types_supported": ["public"],
                "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
                "acr_values_supported": ["goauthentik.io/providers/oauth2/default"],
                "scopes_supported": ["email", "openid", "profile", "sluice"],
                "request_parameter_supported": False,
                "claims_supported": ["sub", "iss", "aud", "exp", "iat", "auth_time", "acr", "amr", "nonce"],
                "claims_parameter_supported": False,
                "code_challenge_methods_supported": ["plain", "S256"],
            },
            f"{authentik.issuer_path}jwks/": {"keys": [signs | _CERTIFICATE]},
            "/application/o/token/": {"token_type": "Bearer", "scope": "openid profile sluice", "expires_in": 300},
        }
        authentik.claims = {
            "iss": authentik.issuer,
            "sub": "7d97ac1b6f7a4b1e3fdc5c0a8e4b1f5d2c3e4f5a6b7c8d9e0f1a2b3c4d5e6f70",
            "aud": CLIENT,
            "auth_time": int(time.time()) - 5,
            "acr": "goauthentik.io/providers/oauth2/default",
            "amr": ["pwd", "mfa"],
            "sid": "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8",
            "jti": "n8XKx2Qb0uU4",
            "name": "Ada Lovelace",
            "given_name": "Ada Lovelace",
            "preferred_username": "ada",
            "nickname": "ada",
            "groups": ["authentik Admins", "staff"],
            "tenant_id": "ten_acme",
        }
        yield authentik


@contextmanager
def _running(issuer_path: str, algorithm: str, kid: str) -> Iterator[DescribedIssuer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._respond(issuer.documents.get(self.path))

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            now = int(time.time())
            token = issuer.sign({"exp": now + 300, "iat": now, **issuer.claims})
            document = issuer.documents.get(self.path)
            self._respond(None if document is None else document | {"id_token": token, "access_token": token})

        def _respond(self, document: Any) -> None:
            body = json.dumps(document, indent=2).encode()
            self.send_response(404 if document is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer = DescribedIssuer(server.server_port, issuer_path, algorithm, kid)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()
