"""Sessions of the console: who is signed in, the one-time links that begin them, and the value of a user."""

from sluice.sessions.session import Link, Session
from sluice.sessions.user import Role, User

__all__ = ["Link", "Role", "Session", "User"]
