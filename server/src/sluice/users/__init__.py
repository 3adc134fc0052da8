"""Named users of the console: invitations, their passkeys, and signing in with these."""

from sluice.users.passkeys import Passkey, PasskeyRefused

__all__ = ["Passkey", "PasskeyRefused"]
