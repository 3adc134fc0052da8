"""What the claims of a token must say to be accepted, and what they then mean. Whether the token is genuine is decided elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sluice.engines.identity.protocol import Claims, InvalidToken

_MAX_TEXT: Final = 255
_LEEWAY_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """Who must have issued a token, for whom, and which claim names the tenant.

    `leeway` is in seconds, for clocks that run apart: it widens `nbf` and `iat`. Expiry has none.
    """

    issuer: str
    audience: str
    tenant_claim: str
    leeway: float = _LEEWAY_SECONDS


def read_claims(said: Mapping[str, object], rules: ClaimRules, *, now: float) -> Claims:
    """Answer the claims when all rules hold at `now` (seconds since 1970, UTC); raises `InvalidToken`."""
    if said.get("iss") != rules.issuer:
        raise InvalidToken("the issuer is another one")
    if rules.audience not in _read_audience(said):
        raise InvalidToken("the token is meant for another audience")
    _refuse_time(said, rules.leeway, now)
    subject = _read_text(said, "sub")
    return Claims(
        issuer=rules.issuer,
        subject=subject,
        tenant_id=_read_text(said, rules.tenant_claim),
        name=_read_name(said, subject),
        scopes=_read_scopes(said),
    )


def _read_audience(said: Mapping[str, object]) -> list[str]:
    audience = said.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    texts = [name for name in named if isinstance(name, str)]
    if len(texts) != len(named):
        raise InvalidToken("the audience is neither a text nor a list of texts")
    return texts


def _refuse_time(said: Mapping[str, object], leeway: float, now: float) -> None:
    expires = _read_moment(said, "exp")
    if expires is None:
        raise InvalidToken("the token has no expiry")
    if now >= expires:
        raise InvalidToken("the token has expired")
    for claim in ("nbf", "iat"):
        moment = _read_moment(said, claim)
        if moment is not None and moment > now + leeway:
            raise InvalidToken(f"the token's {claim} is still to come")


def _read_moment(said: Mapping[str, object], claim: str) -> float | None:
    if claim not in said:
        return None
    moment = said[claim]
    if isinstance(moment, bool) or not isinstance(moment, int | float):
        raise InvalidToken(f"the token's {claim} is not a number")
    return moment


def _read_text(said: Mapping[str, object], claim: str) -> str:
    text = said.get(claim)
    if not _is_plain(text):
        raise InvalidToken(f"the token's {claim} is not a plain text of 1 to {_MAX_TEXT} characters")
    return str(text)


def _read_name(said: Mapping[str, object], subject: str) -> str:
    """A name is for showing only, so one that cannot be shown falls back to the next."""
    return next((str(said[claim]) for claim in ("name", "email") if _is_plain(said.get(claim))), subject)


def _is_plain(text: object) -> bool:
    """Without control characters, line ends and marks that turn the reading direction; with something to see."""
    return isinstance(text, str) and len(text) <= _MAX_TEXT and text.isprintable() and bool(text.strip())


def _read_scopes(said: Mapping[str, object]) -> frozenset[str] | None:
    """`scope` is the standard's claim (RFC 8693) and says what this token may do, so it wins over a `scopes` beside it."""
    if "scope" in said:
        return _words(said["scope"])
    if "scopes" not in said:
        return None
    scopes = said["scopes"]
    if not isinstance(scopes, list):
        return _words(scopes)
    return frozenset(word for scope in scopes for word in _words(scope))


def _words(text: object) -> frozenset[str]:
    if not isinstance(text, str):
        raise InvalidToken("the scopes are not texts")
    return frozenset(text.split(" ")) - {""}
