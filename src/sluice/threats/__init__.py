"""The rules of the `builtin` scanner engine: known threats looked for in unpacked bytes. Not an antivirus. Runs in the sandbox.

Importing this package loads no unpacker: the server may know the version of the rules, but never unpacks.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sluice.threats.scan import scan_source

__all__ = ["RULES_VERSION", "scan_source"]

RULES_VERSION: Final = "2"
"""Raised with every change of what is found or how deep is looked: recorded verdicts then tell old rules from new."""


def __getattr__(name: str) -> object:
    if name == "scan_source":
        from sluice.threats.scan import scan_source  # noqa: PLC0415  (lazy on purpose: it loads the unpackers)

        return scan_source
    raise AttributeError(name)
