"""What a test needs on this machine: without it the test is skipped, and under CI it fails."""

import os
import shutil

import pytest

UNDER_CI = os.environ.get("CI") == "true"
"""Under CI a test whose requirements are missing fails instead of being skipped."""


def require(server: str, *programs: str, apt: str) -> None:
    """Skip the test when one of `programs` is not on PATH; fail it under CI, where a skip would hide a gap."""
    if all(shutil.which(program) for program in programs):
        return
    missing(server, apt=apt)


def missing(server: str, *, apt: str) -> None:
    """Skip the test because `server` is not installed, naming its Debian packages; fail it when `CI` is `true`."""
    message = f"{server} is not installed: apt-get install {apt}"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)
