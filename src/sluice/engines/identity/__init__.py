"""Who signs users' tokens: a local key or an OIDC issuer. What a caller may do is decided in `access`."""

from sluice.engines.identity.protocol import Claims, InvalidToken, IssuerAway, TokenVerifier

__all__ = ["Claims", "InvalidToken", "IssuerAway", "TokenVerifier"]
