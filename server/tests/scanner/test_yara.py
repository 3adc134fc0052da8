"""The engine for the operator's YARA rules: real rules, compiled in their process and applied by real workers."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from sluice.kit.health import EngineState
from sluice.scanner import Clean, Incomplete, Infected, ScannerUnavailable, healths_of
from sluice.scanner.builtin import BuiltinScanner
from sluice.scanner.several import ConfiguredScanner, SeveralScanners
from sluice.scanner.yara import YaraScanner
from sluice.settings import Settings
from sluice.wiring.engines import make_scanner
from sluice.wiring.refusal import StartRefused
from sluice_inspect.sandbox.dispatch import FileJob
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.protocol import (
    CompiledRules,
    Completed,
    OperatorRules,
    RulesBroken,
    RulesUnavailable,
    RunResult,
)
from sluice_inspect.sandbox.rules import compile_kept_rules, compile_rules
from tests.inspection.threats.packed_files import zipped
from tests.rows import each_row
from tests.sandbox.processes import wait_for_end
from tests.sandbox.test_zygote_end import zygote_of
from tests.scanner.conftest import Seal, scanned
from tests.scanner.in_process_sandbox import InProcessSandbox

RULE = """
rule %s {
    meta:
        severity = "%s"
    strings:
        $a = "%s"
    condition:
        $a
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub" / "a.yar", "First", "reject", "first words")
    return tmp_path


@pytest.fixture
async def scanner(folder: Path, sandbox: ZygoteSandbox) -> AsyncIterator[YaraScanner]:
    yara = YaraScanner(folder, sandbox, compile_rules, pause_seconds=3600)
    assert await yara.start() == ""
    yield yara
    await yara.aclose()


def write(path: Path, rule: str, severity: str, text: str) -> None:
    path.write_text(RULE % (rule, severity, text), encoding="utf-8")


async def test_changed_rules_are_applied_to_the_next_file_and_broken_ones_are_not(
    scanner: YaraScanner, folder: Path, seal: Seal
) -> None:
    packed = seal(zipped({"in.zip": zipped({"b.txt": b"first words", "c.txt": b"second words"})}))
    found = await scanned(scanner, packed)
    assert isinstance(found, Infected)
    assert (found.threat, found.quarantines) == ("yara:First", False)
    assert [(match.file, match.rule) for match in found.rules] == [("sub/a.yar", "First")]
    before = scanner.engine_version

    write(folder / "sub" / "a.yar", "Second", "reject", "second words")
    await scanner.refresh()
    found = await scanned(scanner, packed)
    assert isinstance(found, Infected)
    assert found.threat == "yara:Second"
    assert scanner.engine_version is not None
    assert found.signatures == scanner.engine_version.signatures
    assert before != scanner.engine_version

    (folder / "b.yara").write_text("rule Broken {\n  condition:\n    no_such_thing\n}", encoding="utf-8")
    await scanner.refresh()
    health = await scanner.health()
    assert health.state is EngineState.DEGRADED
    assert health.detail.startswith("b.yara:3: unknown identifier `no_such_thing`")
    found = await scanned(scanner, packed)
    assert isinstance(found, Infected)
    assert found.threat == "yara:Second"


async def test_severity_decides_what_a_match_is(scanner: YaraScanner, folder: Path, seal: Seal) -> None:
    write(folder / "b.yar", "Hold", "quarantine", "held words")
    write(folder / "c.yar", "Note", "report", "noted words")
    await scanner.refresh()
    held = await scanned(scanner, seal(b"held words, noted words"))
    assert isinstance(held, Infected)
    assert (held.threat, held.quarantines, len(held.rules)) == ("yara:Hold", True, 2)
    noted = await scanned(scanner, seal(b"noted words"))
    assert isinstance(noted, Clean)
    assert noted.flags == ("yara.Note",)
    assert [match.rule for match in noted.rules] == ["Note"]
    assert isinstance(await scanned(scanner, seal(b"other words")), Clean)


async def test_rules_that_could_be_loaded_are_loaded_into_the_next_zygote(
    scanner: YaraScanner, sandbox: ZygoteSandbox, seal: Seal
) -> None:
    assert await sandbox.use_rules(OperatorRules("0" * 16, os.memfd_create("no rules")))
    zygote = zygote_of(sandbox)
    os.kill(zygote, signal.SIGKILL)
    await asyncio.to_thread(wait_for_end, zygote)
    await scanned(scanner, seal(b"words"))  # it may have no worker yet
    found = await scanned(scanner, seal(b"first words"))
    assert isinstance(found, Infected)
    assert found.threat == "yara:First"


async def test_large_file_is_scanned_once_for_several_engines(
    scanner: YaraScanner, sandbox: ZygoteSandbox, seal: Seal, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[str] = []
    run = sandbox._dispatcher.run

    async def counted(job: FileJob) -> RunResult:
        jobs.append(job.job)
        return await run(job)

    monkeypatch.setattr(sandbox._dispatcher, "run", counted)
    builtin = ConfiguredScanner(BuiltinScanner(sandbox))
    found = await scanned(SeveralScanners([builtin, ConfiguredScanner(scanner)]), seal(bytes(2**20) + b"first words"))
    assert isinstance(found, Infected)
    assert (found.threat, jobs) == ("yara:First", ["scan"])


async def test_rules_that_are_slow_or_match_everything_are_named(tmp_path: Path) -> None:
    (tmp_path / "all.yar").write_text("rule Everything { condition: filesize > 3 }", encoding="utf-8")
    loop = "for all i in (0..40000000) : (uint8(i % 1000) != 300)"
    (tmp_path / "slow.yar").write_text(f"rule Slow {{ condition: filesize > 500KB and {loop} }}", encoding="utf-8")
    scanner = YaraScanner(tmp_path, InProcessSandbox(), compile_rules)
    assert await scanner.start() == ""
    await scanner.aclose()
    health = await scanner.health()
    assert health.state is EngineState.DEGRADED
    assert "slow rules: slow.yar (" in health.detail
    assert "rules that match every file: all.yar:Everything" in health.detail


def report(**fields: object) -> dict[str, object]:
    return {"complete": True, "signatures": "5", "yara": {"version": "0" * 16, "why": "", "matches": [], **fields}}


MATCH = {"rule": "A", "file": "a.yar", "severity": "reject", "meta": {}}


@each_row(
    "payload, kind",
    [
        (report(), Clean),
        (report(matches=[MATCH]), Infected),
        (report(why="the YARA rules took more than 15 s of processor time"), Incomplete),
        (report(version="1" * 16), ScannerUnavailable),
        ({"complete": True, "signatures": "5"}, ScannerUnavailable),
        (report(matches=[MATCH] * 21), Incomplete),
        (report(matches=[MATCH | {"rule": "no name"}]), Incomplete),
        (report(matches=[MATCH | {"severity": "none"}]), Incomplete),
        (report(matches=[MATCH | {"meta": {"a": "x" * 501}}]), Incomplete),
        (report(matches=[MATCH | {"meta": {"a": {}}}]), Incomplete),
        (report(more=1), Incomplete),
    ],
)
async def test_report_of_a_worker_is_never_clean_unless_it_is_as_it_should_be(
    seal: Seal, payload: dict[str, object], kind: type
) -> None:
    async def compiled(_folder: Path) -> CompiledRules:
        return CompiledRules(OperatorRules("0" * 16, os.memfd_create("rules")), 1)

    scanner = YaraScanner(Path("/nowhere"), InProcessSandbox(Completed(payload, 1.0)), compiled)
    await scanner.start()
    assert isinstance(await scanned(scanner, seal(b"words")), kind)
    await scanner.aclose()


class FailingOnce(InProcessSandbox):
    """Cannot load the first rules that it gets."""

    def __init__(self) -> None:
        super().__init__()
        self._faults = ["the zygote ended"]

    async def use_rules(self, rules: OperatorRules) -> str:
        await super().use_rules(rules)
        return self._faults.pop() if self._faults else ""


async def test_rules_that_could_not_be_loaded_are_loaded_later_though_the_folder_is_unchanged(folder: Path) -> None:
    faults: list[Exception] = [RulesUnavailable("no process can be started")]

    async def compiled(folder: Path) -> CompiledRules:
        if faults:
            raise faults.pop()
        return await compile_rules(folder)

    scanner = YaraScanner(folder, FailingOnce(), compiled, pause_seconds=0)
    details = []
    for _ in range(3):
        await scanner.refresh()
        details.append((await scanner.health()).detail)
    assert details == ["no process can be started", "the sandbox cannot load the rules: the zygote ended", ""]
    assert scanner.engine_version is not None


async def test_required_rules_that_are_broken_refuse_the_start_and_optional_ones_do_not(
    folder: Path, seal: Seal
) -> None:
    (folder / "b.yar").write_text("rule Broken {", encoding="utf-8")
    required = Settings(scanner=("builtin", "yara"), yara_rules=folder, verdict_cache=0)
    with pytest.raises(StartRefused, match=r"SLUICE_YARA_RULES: b\.yar:1: syntax error"):
        await make_scanner(required, InProcessSandbox())
    optional = required.model_copy(update={"scanner_optional": ("yara",)})
    scanner = await make_scanner(optional, InProcessSandbox())
    result = await scanned(scanner, seal(b"first words"))
    await scanner.aclose()
    assert isinstance(result, Clean)
    assert [(one.engine, one.outcome) for one in result.each] == [("builtin", "clean"), ("yara", "unavailable")]


async def test_start_with_broken_rules_uses_the_last_good_ones_and_is_degraded(folder: Path) -> None:
    settings = Settings(scanner=("builtin", "yara"), yara_rules=folder, verdict_cache=0, data_dir=folder / ".data")
    write(folder / "b.yar", "Last", "reject", "last words")
    versions = []
    for broken in (False, True):
        if broken:
            (folder / "b.yar").write_text("rule Broken {", encoding="utf-8")
        scanner = await make_scanner(settings, InProcessSandbox())
        versions.append(scanner.engine_version)
        *_, health = await healths_of(scanner)
        await scanner.aclose()
    assert versions[0] == versions[1]
    assert health.state is EngineState.DEGRADED
    assert health.detail.startswith("b.yar:1: syntax error")
    assert health.detail.endswith("; the rules from before are used")


async def test_rules_that_another_process_loaded_before_the_folder_broke_are_accepted(folder: Path, seal: Seal) -> None:
    kept, sandbox = folder / ".kept", InProcessSandbox()
    compiler, compile_kept = partial(compile_rules, kept=kept), partial(compile_kept_rules, kept)
    ours, other = (YaraScanner(folder, sandbox, compiler, compile_kept=compile_kept) for _ in range(2))
    await ours.refresh()
    write(folder / "b.yar", "Second", "reject", "second words")
    await other.refresh()
    (folder / "b.yar").write_text("rule Broken {", encoding="utf-8")
    assert other.engine_version is not None
    assert other.engine_version != ours.engine_version
    sandbox.result = Completed(report(version=other.engine_version.signatures), 1.0)
    assert isinstance(await scanned(ours, seal(b"words")), Clean)
    assert ours.engine_version == other.engine_version


@each_row(
    "settings, lacks",
    [
        ({"scanner": "clamd,yara"}, "SLUICE_SCANNER has yara, which needs SLUICE_YARA_RULES"),
        ({"yara_rules": "rules"}, "SLUICE_YARA_RULES is set, which needs yara in SLUICE_SCANNER"),
    ],
)
def test_engine_and_folder_need_each_other(settings: dict[str, str], lacks: str) -> None:
    with pytest.raises(ValueError, match=lacks):
        Settings.model_validate(settings)


async def test_folder_is_not_left_by_links_or_includes(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    (tmp_path / "secret.txt").write_text("a secret", encoding="utf-8")
    (rules / "a.yar").write_text('/**/include /* */ "../secret.txt"', encoding="utf-8")
    with pytest.raises(RulesBroken, match=r"a\.yar:1: it includes a file outside of the folder"):
        await compile_rules(rules)
    (rules / "a.yar").unlink()
    (rules / "a.yar").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(RulesBroken, match=r"a\.yar: it is a link to a file outside of the folder"):
        await compile_rules(rules)
    (rules / "a.yar").unlink()
    (rules / "part.inc").write_text("rule Part { condition: filesize == 3 }", encoding="utf-8")
    (rules / "a.yar").write_text('include "part.inc"\nrule Whole { condition: Part }', encoding="utf-8")
    compiled = await compile_rules(rules)
    os.close(compiled.rules.fd)
    assert compiled.files == 1
