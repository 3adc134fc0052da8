"""Sessions of the console: who is signed in, the one-time links that begin them, and named users with passkeys."""

from sluice.sessions.session import Link, Session
from sluice.sessions.user import PasskeyRefused, Role, User

__all__ = ["Link", "PasskeyRefused", "Role", "Session", "User"]
