"""Sanitise bytes in this process, and say what is left of them."""

from collections.abc import Collection
from typing import Final

from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Report
from sluice_inspect.sanitise.sanitising import sanitise
from sluice_inspect.source import MemoryBacked

SECRET: Final = b"Zweistein"  # what must be gone


def cleaned(data: bytes, name: str, *removals: str) -> tuple[bytes, set[str]]:
    """Return what is left, and what was taken out; the file itself if that is nothing."""
    with MemoryBacked(data) as source:
        content, cleaning = sanitise(source, name, frozenset(removals))
    return (content if cleaning.removed else data), cleaning.removed


def inspected(data: bytes, name: str) -> Report:
    with MemoryBacked(data) as source:
        return inspect_file(source, filename=name)


def hides(data: bytes, secrets: Collection[bytes] = (SECRET,)) -> set[bytes]:
    """Return which of the secrets are in the bytes, in one of the encodings of metadata."""
    texts = {
        secret: (secret, secret.decode().encode("utf-16-le"), secret.decode().encode("utf-16-be")) for secret in secrets
    }
    return {secret for secret, forms in texts.items() if any(form in data for form in forms)}
