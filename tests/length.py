"""How much the tests try: short forms that always run and show each behaviour, and the whole forms of `make test-long`."""

import os

WHOLE = os.environ.get("SLUICE_TEST_LONG") == "1"


def amount(name: str, *, short: int, whole: int) -> int:
    """Answer how many to try; the variable `SLUICE_TEST_` + `name` says another number."""
    said = os.environ.get(f"SLUICE_TEST_{name}")
    return int(said) if said else whole if WHOLE else short
