"""How much the tests try: short runs that always show each behaviour, and the long runs of `make test-long`."""

import os

LONG_RUN = os.environ.get("SLUICE_TEST_LONG") == "1"


def amount(name: str, *, short: int, full: int) -> int:
    """Return the number to try; the variable `SLUICE_TEST_` + `name` overrides it."""
    value = os.environ.get(f"SLUICE_TEST_{name}")
    return int(value) if value else full if LONG_RUN else short
