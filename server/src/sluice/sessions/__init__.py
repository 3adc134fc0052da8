"""Sessions of the console: who is signed in, and the one-time links that begin them."""

from sluice.sessions.session import Link, Session

__all__ = ["Link", "Session"]
