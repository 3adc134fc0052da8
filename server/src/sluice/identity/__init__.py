"""Verification of users' tokens, signed by a local key or an OIDC issuer.

What a caller may do is decided in `access`.
"""

from sluice.identity.protocol import (
    Claims,
    InvalidToken,
    IssuerUnavailable,
    SignInAttempt,
    SignInFlow,
    TokenVerifier,
)

__all__ = ["Claims", "InvalidToken", "IssuerUnavailable", "SignInAttempt", "SignInFlow", "TokenVerifier"]
