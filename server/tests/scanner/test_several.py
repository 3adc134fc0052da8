"""Several scanners at once: what the whole says for every combination of what each says."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sluice.kit.health import EngineHealth, EngineState
from sluice.scanner import Clean, EngineVersion, Incomplete, Infected, Scanner, ScannerUnavailable, ScanResult
from sluice.scanner.protocol import version_of_all
from sluice.scanner.several import ConfiguredScanner, SeveralScanners
from sluice.scanner.verdict_cache import CachedScanner, MemoryVerdictCache
from sluice.uploads.inspection import scan
from tests.rows import each_row
from tests.scanner.conftest import Seal, scanned

OK = Clean("a", "1", 1.0, flags=("macro",))
BAD = Infected("Threat", "b", "2", 1.0)
PART = Incomplete("too large", "c", "3", 1.0)
AWAY = ScannerUnavailable("no connection", "d")


class Canned:
    """A scanner that always gives one result."""

    scan_limit: int | None = None

    def __init__(self, result: ScanResult, version: EngineVersion | None = None, name: str = "canned") -> None:
        self.result = result
        self.engine_version = version
        self.name = name

    async def scan(self, *_given: Any, **_more: Any) -> ScanResult:
        await asyncio.sleep(0)
        return self.result

    async def health(self) -> EngineHealth:
        state = EngineState.DOWN if isinstance(self.result, ScannerUnavailable) else EngineState.UP
        return EngineHealth("scanner", self.name, state, detail="away" if state is EngineState.DOWN else "")

    async def aclose(self) -> None:
        pass


def several(required: Sequence[ScanResult], optional: Sequence[ScanResult] = ()) -> SeveralScanners:
    engines = [(result, True) for result in required] + [(result, False) for result in optional]
    return SeveralScanners([ConfiguredScanner(Canned(result), is_required) for result, is_required in engines])


@each_row(
    "required, optional, kind",
    [
        ([OK, OK], [], Clean),
        ([OK, BAD], [], Infected),
        ([BAD, AWAY], [], Infected),
        ([BAD, PART], [], Infected),
        ([OK, PART], [], Incomplete),
        ([OK, AWAY], [], ScannerUnavailable),
        ([PART, AWAY], [], ScannerUnavailable),
        ([OK], [OK], Clean),
        ([OK], [AWAY], Clean),
        ([OK], [PART], Clean),
        ([OK], [BAD], Infected),
        ([AWAY], [OK], ScannerUnavailable),
        ([AWAY], [BAD], Infected),
        ([PART], [OK], Incomplete),
    ],
)
async def test_file_is_clean_only_if_every_required_engine_says_so(
    seal: Seal, required: list[ScanResult], optional: list[ScanResult], kind: type
) -> None:
    result = await scanned(several(required, optional), seal(b"words"))
    assert isinstance(result, kind)
    if isinstance(result, ScannerUnavailable):
        return
    said = {"Clean": "clean", "Infected": "infected", "Incomplete": "incomplete", "ScannerUnavailable": "unavailable"}
    assert [one.outcome for one in result.each] == [said[type(one).__name__] for one in (*required, *optional)]
    assert [one.is_required for one in result.each] == [True] * len(required) + [False] * len(optional)


async def test_only_a_verdict_of_all_engines_is_cached(seal: Seal) -> None:
    whole = await scanned(several([OK], [OK]), seal(b"words"))
    partial = await scanned(several([OK], [AWAY]), seal(b"words"))
    unnumbered = await scanned(several([OK, replace(OK, signatures="")]), seal(b"words"))
    assert isinstance(whole, Clean)
    assert isinstance(partial, Clean)
    assert isinstance(unnumbered, Clean)
    assert (whole.engine, whole.signatures, whole.flags) == (partial.engine, partial.signatures, ("macro",))
    assert version_of_all(whole.each) == EngineVersion("a+a", "1+1")
    assert version_of_all(partial.each) is None
    assert version_of_all(unnumbered.each) is None
    assert unnumbered.signatures == "1+-", "other signatures of the first engine are another version"


async def test_cached_verdict_names_every_engine_that_gave_it(seal: Seal) -> None:
    engines = [ConfiguredScanner(Canned(replace(OK, engine=name), EngineVersion(name, "1"))) for name in ("a", "b")]
    scanner = CachedScanner(SeveralScanners(engines), MemoryVerdictCache(), conditions="")
    first, second = [await scanned(scanner, seal(b"words")) for _ in range(2)]
    assert isinstance(first, Clean)
    assert isinstance(second, Clean)
    assert (first.cached, second.cached) == (False, True)
    assert (first.engine, first.signatures) == (second.engine, second.signatures)
    assert [(one.engine, one.outcome) for one in second.each] == [("a", "clean"), ("b", "clean")]


async def test_optional_engine_that_is_late_is_not_waited_for(seal: Seal, monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(Canned):
        async def scan(self, *_given: Any, **_more: Any) -> ScanResult:
            await asyncio.Event().wait()
            return self.result

    monkeypatch.setattr("sluice.scanner.several._OPTIONAL_SECONDS", 0.01)
    result = await scanned(
        SeveralScanners([ConfiguredScanner(Canned(OK)), ConfiguredScanner(Late(BAD), is_required=False)]),
        seal(b"words"),
    )
    assert isinstance(result, Clean)
    assert [one.outcome for one in result.each] == ["clean", "unavailable"]


def test_version_of_the_whole_is_that_of_all_engines_but_optional_ones_that_are_away() -> None:
    first, second, away = Canned(OK, EngineVersion("a", "1")), Canned(OK, EngineVersion("b", "2")), Canned(AWAY)
    both = SeveralScanners([ConfiguredScanner(first), ConfiguredScanner(second, is_required=False)])
    assert (both.engine_version, version_of_all(both.clean_results)) == (
        EngineVersion("a", "1", optional="b/2"),
        EngineVersion("a+b", "1+2"),
    )
    partial = SeveralScanners([ConfiguredScanner(first), ConfiguredScanner(away, is_required=False)])
    assert (partial.engine_version, partial.clean_results) == (EngineVersion("a", "1"), ())
    assert SeveralScanners([ConfiguredScanner(first), ConfiguredScanner(away)]).engine_version is None


@each_row(
    "optional, is_current",
    [
        (Canned(replace(OK, engine="b", signatures="2"), EngineVersion("b", "2")), True),
        (Canned(replace(OK, engine="b", signatures="1"), EngineVersion("b", "2")), False),
        (Canned(AWAY, EngineVersion("b", "2")), False),
        (Canned(AWAY), True),
    ],
    ids=["the same version", "older rules", "away at the scan, back now", "away"],
)
async def test_verdict_is_out_of_date_once_an_optional_engine_has_another_version_or_is_back(
    seal: Seal, optional: Canned, *, is_current: bool
) -> None:
    engines = [
        ConfiguredScanner(Canned(OK, EngineVersion(OK.engine, OK.signatures))),
        ConfiguredScanner(optional, is_required=False),
    ]
    scanner = SeveralScanners(engines)
    found = await scan(seal(b"words"), "ten_1", scanner)
    assert scanner.engine_version is not None
    assert scanner.engine_version.is_of(found.engine_version) is is_current


def test_version_of_many_engines_fits_into_the_row_of_a_file() -> None:
    required, optional = EngineVersion("icap:" + "x" * 60, "y" * 120), "icap:z/" + "z" * 100
    long = str(replace(required, optional=optional))
    assert len(long) == 160
    assert long != str(replace(required, signatures="y" * 119 + "z", optional=optional))
    assert long != str(replace(required, optional=optional + "y"))
    assert required.is_of(long)


async def test_optional_engine_that_is_down_leaves_the_scanner_degraded() -> None:
    healths = await several([OK], [AWAY]).healths()
    assert [health.state for health in healths] == [EngineState.UP, EngineState.DEGRADED]
    assert healths[1].detail == "optional; away"
    assert (await several([OK, AWAY]).health()).state is EngineState.DOWN


def test_one_engine_at_least_is_required() -> None:
    scanner: Scanner = Canned(OK)
    with pytest.raises(ValueError, match="not optional"):
        SeveralScanners([ConfiguredScanner(scanner, is_required=False)])
