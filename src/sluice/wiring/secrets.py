"""The secret files of one installation: where they are, and who makes them. What they seal and sign is known elsewhere."""

from collections.abc import Sequence
from pathlib import Path

from sluice.engines.identity.claims import ClaimRules
from sluice.engines.identity.local_keys import LocalKey, make_local_key
from sluice.files.links import load_signing_secret
from sluice.kit.keyring_file import load_keyring
from sluice.settings import Settings
from sluice.wiring.start import StartRefused, make_folder

KEYRING = "buckets.json"
LINK_SECRET = "links.hex"  # noqa: S105  (the name of a file)
SIGNING_KEY = "jwt.pem"


def secret_file(settings: Settings, name: str) -> Path:
    """Answer the path of a secret file; in production it must be there already, put there by a person who keeps a copy."""
    path = settings.keys_dir / name
    if settings.production and not path.exists():
        raise StartRefused(f"The secret file {path} is missing; run `sluice init` once and keep a copy of it.")
    make_folder(settings.keys_dir)
    return path


def make_key_files(settings: Settings) -> Sequence[Path]:
    """Make the secret files that are missing, and answer those made: their owner keeps a copy. Raises `SecretFileRefused`."""
    make_folder(settings.keys_dir)
    keyring, links, signing = (settings.keys_dir / name for name in (KEYRING, LINK_SECRET, SIGNING_KEY))
    made = {
        keyring: load_keyring(keyring).made,
        links: load_signing_secret(links).made,
        signing: make_local_key(signing).made,
    }
    return [path for path, is_new in made.items() if is_new]


def keyring_path(settings: Settings) -> Path:
    """Answer where the keyring is; made when missing, except in production."""
    path = secret_file(settings, KEYRING)
    load_keyring(path)
    return path


def load_signing_key(settings: Settings) -> LocalKey:
    """Answer the key that `sluice token` signs with, made on the first start."""
    return make_local_key(secret_file(settings, SIGNING_KEY)).key


def local_rules(settings: Settings) -> ClaimRules:
    """Answer what a locally signed token must say."""
    return ClaimRules(settings.jwt_issuer, settings.jwt_audience, settings.jwt_tenant_claim)
