"""What a scanner makes of content behind a password. Passwords themselves are never asked for or tried."""

from typing import Literal

EncryptedPolicy = Literal["allow", "incomplete"]
"""`allow`: a password does not make a file a bad one, so what was found in the rest decides. `incomplete`: unread content is not clean.

The default is `allow`: password-protected files are intact files. Where they must not pass, `incomplete` refuses them (with clamd, only
if it is set to `AlertEncrypted yes`).
"""
