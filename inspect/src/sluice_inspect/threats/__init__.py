"""The rules of the `builtin` scanner engine: a search for known threats in unpacked bytes. Not an antivirus."""
# Importing this package loads no unpacker: the server knows the version of the rules, but never unpacks.

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sluice_inspect.threats.scan import scan_source

__all__ = ["EICAR", "RULES_VERSION", "scan_source"]

# Increase it with every change of what is found or how deep archives are opened: recorded verdicts then show which
# rules they are by.
RULES_VERSION: Final = "5"

# The EICAR anti-malware test file, all 68 bytes: the one harmless string that every scanner must find. It is written in
# hex, so that no scanner reports this file. `rules/eicar.yar` finds it; clamd is tested with it at start-up.
# Source: https://www.eicar.org/download-anti-malware-testfile/
EICAR: Final = bytes.fromhex(
    "58354f2150254041505b345c505a58353428505e2937434329377d24"
    "45494341522d5354414e444152442d414e544956495255532d544553542d46494c452124482b482a"
)


def __getattr__(name: str) -> object:
    if name == "scan_source":
        from sluice_inspect.threats.scan import scan_source  # noqa: PLC0415  (lazy on purpose: it loads the unpackers)

        return scan_source
    raise AttributeError(name)
