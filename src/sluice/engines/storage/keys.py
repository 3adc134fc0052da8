"""What may be a key in every store alike. How keys are made from templates is decided in `contexts`."""

import re
from typing import Final

from sluice.engines.storage.protocol import StoreFault

KEY_BYTES: Final = 1024  # S3's own limit, in UTF-8: docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
_NOT_TEXT: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def checked_key(key: str) -> str:
    """Answer `key` itself, or raise `StoreFault` for one that leaves its store, or that stores would read differently."""
    if not 0 < len(key.encode(errors="replace")) <= KEY_BYTES:
        raise StoreFault(f"A key has 1 to {KEY_BYTES} bytes.")
    if any(segment in {"", ".", ".."} for segment in key.split("/")):
        raise StoreFault("A key is relative and has no empty, `.` or `..` part.")
    if _NOT_TEXT.search(key):
        raise StoreFault("A key has no control characters.")
    return key
