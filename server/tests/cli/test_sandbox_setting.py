"""The sandbox that the settings ask for."""

import sys

import pytest

from sluice.settings import Settings
from sluice.wiring.refusal import StartRefused
from sluice.wiring.sandbox import make_sandbox


def test_sandbox_refuses_to_start_outside_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(StartRefused, match=r"^The sandbox needs Linux; this system is darwin\.$"):
        make_sandbox(settings)
