"""`sluice doctor`: report every engine, even when one of them fails."""

import sqlite3
from typing import Any

import pytest

from tests.cli.commands import Sluice
from tests.rows import each_row

KINDS = ["database", "storage", "limiter", "sandbox", "scanner", "identity", "secrets", "settings"]
WORST_FIRST = ["down", "degraded", "up"]


def by_kind(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {engine["kind"]: engine for engine in report["engines"]}


def test_doctor_reports_no_engine_of_a_healthy_service_as_down(ready: Sluice) -> None:
    result = ready("doctor", "--json")
    assert result.code == 0
    engines = by_kind(result.json)
    assert sorted(engines) == sorted(KINDS)
    assert {kind: engine["name"] for kind, engine in engines.items()} == {
        "database": "sqlite",
        "storage": "local",
        "limiter": "memory",
        "sandbox": "zygote",
        "scanner": "builtin",
        "identity": "local",
        "secrets": "files",
        "settings": "environment",
    }
    assert "down" not in {engine["state"] for engine in engines.values()}
    assert engines["database"]["version"].startswith("3.")
    assert engines["sandbox"]["limits"]["memory_bytes"] > 0


def test_doctor_prints_one_line_per_engine_and_a_status(ready: Sluice) -> None:
    lines = ready("doctor").out.splitlines()
    assert sorted(line.split()[0] for line in lines[1:9]) == sorted(KINDS)
    assert lines[-1].rpartition(": ")[2] in {"up", "degraded"}


@each_row(
    "settings, kind, detail",
    [
        ({"SCANNER": "clamd", "CLAMD": "unix:/nowhere"}, "scanner", "/nowhere"),
        ({"SCANNER": "clamd", "CLAMD": "nonsense"}, "scanner", "SLUICE_CLAMD"),
        ({"DATABASE_URL": "postgresql://postgres@127.0.0.1:1/x"}, "database", "no connection"),
        ({"STORAGE_DIR": "/dev/null/objects"}, "storage", "SLUICE_STORAGE_DIR"),
        ({"LIMITER": "redis"}, "limiter", "SLUICE_REDIS_URL"),
        ({"LIMITER": "redis", "REDIS_URL": "redis://127.0.0.1:1"}, "limiter", "no answer"),
        ({"OIDC_ISSUER": "https://issuer.example"}, "identity", "SLUICE_OIDC_JWKS_URL"),
    ],
)
def test_doctor_reports_only_the_unavailable_engine_as_down(
    settings: dict[str, str], kind: str, detail: str, ready: Sluice
) -> None:
    result = ready.with_settings(**settings)("doctor", "--json")
    assert result.code == 1
    assert result.json["status"] == "down"
    engines = by_kind(result.json)
    assert sorted(engines) == sorted(KINDS)
    states = [engine["state"] for engine in result.json["engines"]]
    assert states == sorted(states, key=WORST_FIRST.index)
    assert detail in engines[kind]["detail"]
    assert [name for name, engine in engines.items() if engine["state"] == "down"] == [kind]


def test_doctor_reports_an_invalid_redis_url_for_each_engine_that_uses_it(ready: Sluice) -> None:
    engines = by_kind(ready.with_settings(LIMITER="redis", REDIS_URL="nonsense")("doctor", "--json").json)
    down = {name for name, engine in engines.items() if engine["state"] == "down"}
    assert down == {"limiter", "scanner"}
    assert all("SLUICE_REDIS_URL" in engines[name]["detail"] for name in down)


def test_doctor_reports_an_unmigrated_database_as_down(sluice: Sluice) -> None:
    sluice.data_dir.mkdir(parents=True, mode=0o700)
    sqlite3.connect(sluice.data_dir / "sluice.db").close()
    result = sluice("doctor", "--json")
    assert result.code == 1
    assert "run `sluice migrate`" in by_kind(result.json)["database"]["detail"]


def test_doctor_makes_nothing_in_an_empty_folder_and_names_what_is_missing(sluice: Sluice) -> None:
    result = sluice("doctor", "--json")
    assert result.code == 1
    engines = by_kind(result.json)
    assert engines["database"]["detail"].startswith(f"There is no database at {sluice.data_dir}")
    assert engines["storage"]["detail"] == "not made yet: the first start makes it"
    assert str(sluice.data_dir / "keys" / "links.hex") in engines["secrets"]["detail"]
    assert [engine["kind"] for engine in result.json["engines"] if engine["state"] == "down"] == ["database"]
    assert not any(sluice.folder.iterdir())


@pytest.mark.parametrize("name", ["links.hex", "jwt.pem", "buckets.json", "receipts.json"])
def test_doctor_reports_a_damaged_secret_file_as_down_as_serve_does(name: str, sluice: Sluice) -> None:
    assert sluice("init").code == 0
    (sluice.data_dir / "keys" / name).write_text("damaged")
    result = sluice("doctor", "--json")
    assert result.code == 1
    secrets = by_kind(result.json)["secrets"]
    assert (secrets["state"], name in secrets["detail"]) == ("down", True)


@pytest.mark.parametrize(
    "value", ["", "damaged", '{"primary": "a", "keys": {}}', '{"primary": "a", "keys": {"a": "00"}}']
)
def test_serve_and_doctor_refuse_a_damaged_keyring_of_the_environment_with_one_sentence(
    value: str, sluice: Sluice
) -> None:
    assert sluice("init").code == 0
    damaged = sluice.with_settings(KEYRING=value)
    sentence = "SLUICE_KEYRING is damaged: restore it from your copy."
    result = damaged("doctor", "--json")
    assert result.code == 1
    secrets = by_kind(result.json)["secrets"]
    assert (secrets["state"], secrets["detail"]) == ("down", sentence)
    served = damaged.with_settings(PORT="0")("serve")
    assert served.code == 1
    assert served.error_line == sentence


def test_doctor_reports_a_secret_file_that_others_can_read_as_down(sluice: Sluice) -> None:
    assert sluice("init").code == 0
    (sluice.data_dir / "keys" / "links.hex").chmod(0o644)
    secrets = by_kind(sluice("doctor", "--json").json)["secrets"]
    assert secrets["state"] == "down"
    assert "run chmod 600 on it" in secrets["detail"]


def test_doctor_reports_missing_secret_files_in_production_as_down(sluice: Sluice) -> None:
    assert sluice("init").code == 0
    (sluice.data_dir / "keys" / "links.hex").unlink()
    settings = sluice.with_settings(PRODUCTION="true", PUBLIC_URL="https://files.example")
    secrets = by_kind(settings("doctor", "--json").json)["secrets"]
    assert secrets["state"] == "down"
    assert "links.hex; run `sluice init`" in secrets["detail"]


@each_row(
    "settings, sentence",
    [
        ({"PRODUCTION": "true"}, "SLUICE_PRODUCTION needs SLUICE_PUBLIC_URL"),
        ({"PROCESSES": "2", "SPOOL_MB": "3000"}, "SLUICE_PROCESSES=2 needs SLUICE_SPOOL_MB of at least 4096"),
    ],
)
def test_doctor_reports_settings_with_which_serve_does_not_start(
    settings: dict[str, str], sentence: str, ready: Sluice
) -> None:
    found = by_kind(ready.with_settings(**settings)("doctor", "--json").json)["settings"]
    assert found["state"] == "down"
    assert sentence in found["detail"]


def test_doctor_says_that_several_processes_count_rate_limits_in_the_database(ready: Sluice) -> None:
    found = by_kind(ready.with_settings(PROCESSES="2")("doctor", "--json").json)["settings"]
    assert (found["state"], found["limits"]) == ("up", {"processes": 2})
    assert "counted in the database" in found["detail"]


def test_doctor_says_that_the_built_in_rules_are_no_antivirus(ready: Sluice) -> None:
    scanner = by_kind(ready("doctor", "--json").json)["scanner"]
    assert scanner["state"] == "degraded"
    assert "not an antivirus: start clamd" in scanner["detail"]


def test_doctor_names_host_and_cause_of_a_database_that_refuses_connections(ready: Sluice) -> None:
    settings = ready.with_settings(DATABASE_URL="postgresql://postgres:secret@127.0.0.1:1/x")
    detail = by_kind(settings("doctor", "--json").json)["database"]["detail"]
    assert "127.0.0.1:1/x: Connect call failed" in detail
    assert "secret" not in detail
