"""`sluice doctor`: report every engine, even when one of them fails."""

import sqlite3
from typing import Any

from tests.cli.commands import Sluice
from tests.rows import each_row

NAMES = {"database": "sqlite", "storage": "local", "limiter": "memory", "sandbox": "zygote"} | {
    "scanner": "builtin",
    "identity": "local",
    "secrets": "files",
    "settings": "environment",
}
KINDS = list(NAMES)
WORST_FIRST = ["down", "degraded", "up"]
SECRET_URL = "postgresql://postgres:secret@127.0.0.1:1/x"


def by_kind(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {engine["kind"]: engine for engine in report["engines"]}


def engine_of(sluice: Sluice, kind: str) -> dict[str, Any]:
    return by_kind(sluice("doctor", "--json").json)[kind]


def test_doctor_reports_every_engine_and_none_of_a_healthy_service_as_down(ready: Sluice) -> None:
    result = ready("doctor", "--json")
    assert result.code == 0
    engines = by_kind(result.json)
    assert {kind: engine["name"] for kind, engine in engines.items()} == NAMES
    assert "down" not in {engine["state"] for engine in engines.values()}
    assert engines["database"]["version"].startswith("3.")
    assert engines["sandbox"]["limits"]["memory_bytes"] > 0
    lines = ready("doctor").out.splitlines()
    assert max(map(len, lines)) <= 100
    assert sorted(line.split()[0] for line in lines[1:-1] if not line.startswith(" ")) == sorted(KINDS)
    assert lines[-1].rpartition(": ")[2] in {"up", "degraded"}


@each_row(
    "settings, kinds, detail",
    [
        ({"SCANNER": "clamd", "CLAMD": "unix:/nowhere"}, ["scanner"], "/nowhere"),
        ({"SCANNER": "clamd", "CLAMD": "nonsense"}, ["scanner"], "SLUICE_CLAMD"),
        ({"DATABASE_URL": "postgresql://postgres@127.0.0.1:1/x"}, ["database"], "no connection"),
        ({"STORAGE_DIR": "/dev/null/objects"}, ["storage"], "SLUICE_STORAGE_DIR"),
        ({"LIMITER": "redis"}, ["limiter"], "SLUICE_REDIS_URL"),
        ({"LIMITER": "redis", "REDIS_URL": "redis://127.0.0.1:1"}, ["limiter"], "no reply"),
        ({"LIMITER": "redis", "REDIS_URL": "nonsense"}, ["limiter", "scanner"], "SLUICE_REDIS_URL"),
        ({"OIDC_ISSUER": "https://issuer.example"}, ["identity"], "SLUICE_OIDC_JWKS_URL"),
    ],
)
def test_doctor_reports_only_the_unavailable_engines_as_down(
    settings: dict[str, str], kinds: list[str], detail: str, ready: Sluice
) -> None:
    result = ready.with_settings(**settings)("doctor", "--json")
    assert result.code == 1
    assert result.json["status"] == "down"
    engines = by_kind(result.json)
    assert sorted(engines) == sorted(KINDS)
    states = [engine["state"] for engine in result.json["engines"]]
    assert states == sorted(states, key=WORST_FIRST.index)
    assert all(detail in engines[kind]["detail"] for kind in kinds)
    assert sorted(name for name, engine in engines.items() if engine["state"] == "down") == kinds


def test_doctor_makes_nothing_in_an_empty_folder_and_names_what_is_missing(sluice: Sluice) -> None:
    result = sluice("doctor", "--json")
    assert result.code == 1
    engines = by_kind(result.json)
    assert engines["database"]["detail"].startswith(f"There is no database at {sluice.data_dir}")
    assert engines["storage"]["detail"] == "not made yet: the first start makes it"
    assert str(sluice.data_dir / "keys" / "links.hex") in engines["secrets"]["detail"]
    assert [engine["kind"] for engine in result.json["engines"] if engine["state"] == "down"] == ["database"]
    assert not any(sluice.folder.iterdir())
    sluice.data_dir.mkdir(parents=True, mode=0o700)
    sqlite3.connect(sluice.data_dir / "sluice.db").close()
    result = sluice("doctor", "--json")
    assert result.code == 1
    assert "run `sluice migrate`" in by_kind(result.json)["database"]["detail"]


def test_doctor_reports_a_secret_file_that_serve_refuses_as_down(sluice: Sluice) -> None:
    assert sluice("init").code == 0
    keys = sluice.data_dir / "keys"
    for name in ("links.hex", "jwt.pem", "buckets.json", "receipts.json"):
        kept = (keys / name).read_bytes()
        (keys / name).write_text("damaged")
        assert sluice("doctor").code == 1
        secrets = engine_of(sluice, "secrets")
        assert (secrets["state"], name in secrets["detail"]) == ("down", True)
        (keys / name).write_bytes(kept)
    (keys / "links.hex").chmod(0o644)
    secrets = engine_of(sluice, "secrets")
    assert (secrets["state"], "run chmod 600 on it" in secrets["detail"]) == ("down", True)
    (keys / "links.hex").unlink()
    secrets = engine_of(sluice.with_settings(PRODUCTION="true", PUBLIC_URL="https://files.example"), "secrets")
    assert (secrets["state"], "links.hex; run `sluice init`" in secrets["detail"]) == ("down", True)


@each_row("value", ["", "damaged", '{"primary": "a", "keys": {}}', '{"primary": "a", "keys": {"a": "00"}}'])
def test_serve_and_doctor_refuse_a_damaged_keyring_of_the_environment(value: str, ready: Sluice) -> None:
    damaged = ready.with_settings(KEYRING=value)
    sentence = "SLUICE_KEYRING is damaged: restore it from your copy."
    result = damaged("doctor", "--json")
    secrets = by_kind(result.json)["secrets"]
    assert (result.code, secrets["state"], secrets["detail"]) == (1, "down", sentence)
    served = damaged.with_settings(PORT="0")("serve")
    assert (served.code, served.error_line) == (1, sentence)


@each_row(
    "settings, kind, state, sentence",
    [
        ({"PRODUCTION": "true"}, "settings", "down", "SLUICE_PRODUCTION needs SLUICE_PUBLIC_URL"),
        ({"PROCESSES": "2", "SPOOL_MB": "3000"}, "settings", "down", "=2 needs SLUICE_SPOOL_MB of at least 4096"),
        ({"PROCESSES": "2"}, "settings", "up", "counted in the database"),
        ({}, "scanner", "degraded", "not an antivirus: start clamd"),
        ({"DATABASE_URL": SECRET_URL}, "database", "down", "127.0.0.1:1/x: Connect call failed"),
    ],
)
def test_doctor_says_what_settings_mean(
    settings: dict[str, str], kind: str, state: str, sentence: str, ready: Sluice
) -> None:
    found = engine_of(ready.with_settings(**settings), kind)
    assert found["state"] == state
    assert sentence in found["detail"]
    assert "secret" not in found["detail"]
    if state == "up":
        assert found["limits"] == {"processes": 2}
