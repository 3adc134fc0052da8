"""The EICAR anti-malware test file: the one harmless string that every scanner must find. Kept in hex, so that no scanner trips over this file.

Source: https://www.eicar.org/download-anti-malware-testfile/
"""

from typing import Final

EICAR: Final = bytes.fromhex(
    "58354f2150254041505b345c505a58353428505e2937434329377d24"
    "45494341522d5354414e444152442d414e544956495255532d544553542d46494c452124482b482a"
)
"""All 68 bytes. The rule that finds it is in `rules/eicar.yar`; clamd is tried on it at start."""
