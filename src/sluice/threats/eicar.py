"""The EICAR anti-malware test file: the one harmless string that every scanner must find. Kept in hex, so that no scanner trips over this file.

Source: https://www.eicar.org/download-anti-malware-testfile/
"""

from typing import Final

EICAR: Final = bytes.fromhex(
    "58354f2150254041505b345c505a58353428505e2937434329377d24"
    "45494341522d5354414e444152442d414e544956495255532d544553542d46494c452124482b482a"
)
"""All 68 bytes. Shorter forms are quoted in honest texts too often."""

EICAR_NAME: Final = "Eicar-Test-File"


class EicarFinder:
    """Looks for the test string in bytes that come in pieces of any length."""

    def __init__(self) -> None:
        self._carry = b""

    def finds(self, piece: bytes) -> bool:
        """Answer whether the string ends within `piece`."""
        seam = self._carry + piece[: len(EICAR) - 1]
        self._carry = (self._carry + piece[-len(EICAR) :])[-(len(EICAR) - 1) :]
        return EICAR in seam or EICAR in piece
