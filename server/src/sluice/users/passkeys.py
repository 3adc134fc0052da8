"""Passkeys, and the two ceremonies of WebAuthn level 2: registering one, and signing in with it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from typing import Final, Self
from urllib.parse import urlsplit

from webauthn import (
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers import parse_authentication_credential_json
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from sluice.sessions.user import User

CHALLENGE_SECONDS: Final = 300
# The longest that an authenticator may choose (WebAuthn level 2, 5.1); PostgreSQL indexes this much.
_MAX_CREDENTIAL_ID: Final = 1023


class PasskeyRefused(Exception):
    """A registration or sign-in by passkey failed. `str()` says why, for the log only."""


@dataclass(frozen=True, slots=True)
class Passkey:
    """The public part of a user's passkey. `sign_count` is what its authenticator counted at the last use."""

    credential_id: bytes
    tenant_id: str
    user_id: str
    public_key: bytes
    sign_count: int
    created_at: datetime
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """The site that passkeys are bound to: its host name, and the one origin whose pages may use them."""

    host: str
    origin: str

    @classmethod
    def of(cls, public_url: str) -> Self | None:
        """Return the site at an address; None if its host is an IP address, for which browsers make no passkeys.

        An address of this machine itself is `localhost`, for which they do.
        """
        parts = urlsplit(public_url)
        host = parts.hostname or ""
        try:
            if not ip_address(host).is_loopback:
                return None
            host = "localhost"
        except ValueError:
            pass
        port = "" if parts.port is None else f":{parts.port}"
        return cls(host, f"{parts.scheme}://{host}{port}")


@dataclass(frozen=True, slots=True)
class Assertion:
    """What a browser sends to sign in, not verified yet: which passkey it names, and whose it says that is."""

    credential_id: bytes
    user_id: str
    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what the JSON of a credential names. Raise `PasskeyRefused`."""
        try:
            credential = parse_authentication_credential_json(text)
            return cls(credential.raw_id, (credential.response.user_handle or b"").decode("ascii"), text)
        except Exception as fault:
            raise PasskeyRefused(f"no credential ({type(fault).__name__})") from fault


def creation_options(site: RelyingParty, user: User, known: Sequence[Passkey], challenge: bytes) -> str:
    """Return the options of `navigator.credentials.create()` as JSON: a passkey that needs no name typed at its use."""
    options = generate_registration_options(
        rp_id=site.host,
        rp_name="Sluice",
        user_id=user.user_id.encode("ascii"),
        user_name=user.name,
        challenge=challenge,
        timeout=CHALLENGE_SECONDS * 1000,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED, user_verification=UserVerificationRequirement.REQUIRED
        ),
        exclude_credentials=[PublicKeyCredentialDescriptor(passkey.credential_id) for passkey in known],
    )
    return options_to_json(options)


def request_options(site: RelyingParty, challenge: bytes) -> str:
    """Return the options of `navigator.credentials.get()` as JSON, for any passkey of the site."""
    options = generate_authentication_options(
        rp_id=site.host,
        challenge=challenge,
        timeout=CHALLENGE_SECONDS * 1000,
        user_verification=UserVerificationRequirement.REQUIRED,
    )
    return options_to_json(options)


def verify_creation(site: RelyingParty, user: User, text: str, challenge: bytes, at: datetime) -> Passkey:
    """Return the passkey that a browser made for a user. Raise `PasskeyRefused`."""
    try:
        made = verify_registration_response(
            credential=json.loads(text),
            expected_challenge=challenge,
            expected_rp_id=site.host,
            expected_origin=site.origin,
            require_user_verification=True,
        )
    except Exception as fault:
        raise PasskeyRefused(f"{type(fault).__name__}: {fault}") from fault
    if len(made.credential_id) > _MAX_CREDENTIAL_ID:
        raise PasskeyRefused("the credential's id is too long")
    return Passkey(
        made.credential_id, user.tenant_id, user.user_id, made.credential_public_key, made.sign_count, created_at=at
    )


def verify_assertion(site: RelyingParty, passkey: Passkey, assertion: Assertion, challenge: bytes) -> int:
    """Return the new sign count of a passkey whose holder is present and verified. Raise `PasskeyRefused`."""
    if assertion.user_id != passkey.user_id:
        raise PasskeyRefused("the passkey is another user's")
    try:
        verified = verify_authentication_response(
            credential=json.loads(assertion.text),
            expected_challenge=challenge,
            expected_rp_id=site.host,
            expected_origin=site.origin,
            credential_public_key=passkey.public_key,
            credential_current_sign_count=passkey.sign_count,
            require_user_verification=True,
        )
    except Exception as fault:
        raise PasskeyRefused(f"{type(fault).__name__}: {fault}") from fault
    return verified.new_sign_count
