"""The operator's YARA rules: what they see of a file, what their matches become, and rules that go wrong."""

from pathlib import Path

import pytest
import yara_x

from sluice_inspect.child import compile_rules
from sluice_inspect.source import MemorySource
from sluice_inspect.threats import operator_rules
from sluice_inspect.threats.budget import Meter, ScanBudget
from sluice_inspect.threats.operator_rules import OperatorScan
from sluice_inspect.threats.walk import ThreatWalk
from tests.inspection.threats.containers import MISSED_BY_CLAMD, REQUIRED_CONTAINERS
from tests.inspection.threats.packed_files import zipped
from tests.rows import each_row

VERSION = "0123456789abcdef"
MARK = b"An unusual sentence of 68 bytes, which no format has and rules find."
FINDS_MARK = f'rule Mark {{ strings: $mark = "{MARK.decode()}" condition: $mark }}'


def scan(rules: str, data: bytes, *, cpu_seconds: float = 30.0, budget: ScanBudget | None = None) -> OperatorScan:
    """Walk through `data` with these rules."""
    compiler = yara_x.Compiler()
    for name in operator_rules.VARIABLES:
        compiler.define_global(name, "")
    compiler.new_namespace("a/b.yar")
    compiler.add_source(rules)
    found = OperatorScan(VERSION, yara_x.Scanner(compiler.build()), cpu_seconds)
    source = MemorySource(bytearray(data))
    ThreatWalk(Meter(budget or ScanBudget(), source.size), operator_scan=found).scan(source, "")
    return found


def names(found: OperatorScan) -> list[object]:
    matches = found.to_json()["matches"]
    assert isinstance(matches, list)
    return [match["rule"] for match in matches]


@each_row("name", [*REQUIRED_CONTAINERS, *MISSED_BY_CLAMD])
def test_rules_are_applied_to_what_is_packed_in_a_file(name: str) -> None:
    wrap = REQUIRED_CONTAINERS[name][1] if name in REQUIRED_CONTAINERS else MISSED_BY_CLAMD[name]
    found = scan(FINDS_MARK, wrap(MARK))
    assert (names(found), found.why) == (["Mark"], "")


def test_rules_see_each_part_as_a_file_of_its_own_with_its_name() -> None:
    rules = """
        rule First { condition: uint16be(0) == 0x6162 and filesize == 4 and filename == "in.txt" and extension == ".txt" }
        rule Whole { condition: uint16be(0) == 0x504b and filename == "" }
    """
    assert sorted(map(str, names(scan(rules, zipped({"in.txt": b"abcd", "b": b"xy"}))))) == ["First", "Whole"]


def test_matches_are_bounded_and_the_most_severe_come_first() -> None:
    many = "\n".join(f'rule Note{number} {{ meta: severity = "report" condition: true }}' for number in range(30))
    last = 'rule Bad { meta: severity = "high" author = "\\x01' + "x" * 300 + '" score = 75 condition: true }'
    matches = scan(f"{many}\n{last}", b"data").to_json()["matches"]
    assert isinstance(matches, list)
    assert len(matches) == operator_rules.MATCHES_MAX
    assert matches[0] == {
        "rule": "Bad",
        "file": "a/b.yar",
        "severity": "reject",
        "meta": {"author": "?" + "x" * (operator_rules.META_TEXT_MAX - 1), "score": 75},
    }


def test_rules_over_their_time_and_parts_too_large_for_memory_are_not_passed_over() -> None:
    assert "processor time" in scan(FINDS_MARK, MARK, cpu_seconds=0.0).why
    large = zipped({"a": bytes(300_000)})
    assert "a part of more than" in scan(FINDS_MARK, large, budget=ScanBudget(max_held_bytes=100_000)).why


def test_bytes_that_are_no_compiled_rules_are_refused() -> None:
    with pytest.raises(Exception, match="not a YARA-X compiled rules file"):
        operator_rules.load(b"no rules", VERSION)
    assert operator_rules.begin(1) is None


def test_rules_that_take_too_long_to_load_are_refused_by_their_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.yar").write_text(FINDS_MARK, encoding="utf-8")
    monkeypatch.setattr(compile_rules, "_LOAD_SECONDS", 0.0)
    with (tmp_path / "out").open("wb") as out, pytest.raises(compile_rules._Refused, match="processor time to load"):
        compile_rules._compile_folder(tmp_path, out)


def test_rule_that_does_not_end_is_refused_by_its_compiler_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.yar").write_text(FINDS_MARK, encoding="utf-8")
    endless = "rule Endless { condition: filesize == 0 and for all i in (1..2000000000000) : (i * i != 3) }"
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.yar").write_text(endless, encoding="utf-8")
    monkeypatch.setattr(compile_rules, "_ALL_MAX_SECONDS", 1)
    monkeypatch.setattr(compile_rules, "_FILE_MAX_SECONDS", 1)
    named = "sub/b.yar: the rule Endless takes more than 1 s for 1 MiB"
    with (tmp_path / "out").open("wb") as out, pytest.raises(compile_rules._Refused, match=named):
        compile_rules._compile_folder(tmp_path, out)
