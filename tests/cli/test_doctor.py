"""`sluice doctor`: each engine as it is, and one that fails hides no other."""

from typing import Any

import pytest

from tests.cli.commands import Sluice

KINDS = ["database", "storage", "limiter", "sandbox", "scanner", "identity"]


def by_kind(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {engine["kind"]: engine for engine in report["engines"]}


def test_every_engine_of_a_healthy_service_is_up(ready: Sluice) -> None:
    ended = ready("doctor", "--json")
    assert ended.code == 0
    engines = by_kind(ended.json)
    assert list(engines) == KINDS
    assert {kind: engine["name"] for kind, engine in engines.items()} == {
        "database": "sqlite",
        "storage": "local",
        "limiter": "memory",
        "sandbox": "zygote",
        "scanner": "builtin",
        "identity": "local",
    }
    assert "down" not in {engine["state"] for engine in engines.values()}
    assert engines["database"]["version"].startswith("3.")
    assert engines["sandbox"]["limits"]["memory_bytes"] > 0


def test_a_person_sees_a_line_per_engine_and_a_verdict(ready: Sluice) -> None:
    lines = ready("doctor").out.splitlines()
    assert [line.split()[0] for line in lines[1:7]] == KINDS
    assert lines[-1].rpartition(": ")[2] in {"up", "degraded"}


@pytest.mark.parametrize(
    ("settings", "kind", "detail"),
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
def test_an_engine_that_is_away_is_down_and_hides_no_other(settings: dict[str, str], kind: str, detail: str, ready: Sluice) -> None:
    ended = ready.with_settings(**settings)("doctor", "--json")
    assert ended.code == 1
    assert ended.json["status"] == "down"
    engines = by_kind(ended.json)
    assert list(engines) == KINDS
    assert detail in engines[kind]["detail"]
    assert [name for name, engine in engines.items() if engine["state"] == "down"] == [kind]


def test_an_address_of_redis_that_cannot_be_read_is_told_of_each_that_needs_it(ready: Sluice) -> None:
    engines = by_kind(ready.with_settings(LIMITER="redis", REDIS_URL="nonsense")("doctor", "--json").json)
    down = {name for name, engine in engines.items() if engine["state"] == "down"}
    assert down == {"limiter", "scanner"}
    assert all("SLUICE_REDIS_URL" in engines[name]["detail"] for name in down)


def test_a_database_that_was_not_migrated_is_down(sluice: Sluice) -> None:
    ended = sluice("doctor", "--json")
    assert ended.code == 1
    assert "run `sluice migrate`" in by_kind(ended.json)["database"]["detail"]
