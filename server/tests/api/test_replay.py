"""Replay of a change: what it would have done to earlier uploads, and that it is what the change then does."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sluice.uploads.replay import Verdict, judge_again
from sluice.uploads.values import Facts, Rules
from sluice_inspect.threats import EICAR
from tests.api import samples
from tests.api.responses import assert_not_found, assert_validation_error, data
from tests.run_length import amount
from tests.service import ApiClient

CHECKS_OFF = {"reject_blank_files": False, "reject_corrupt_files": False, "scan_for_viruses": False}
GROUPS = ("would_reject", "would_accept", "would_quarantine", "other_reason")
MANY_TYPES = [f"image/a{number}" for number in range(3000)]


@cache
def files() -> Mapping[str, bytes]:
    """Return files of every kind of verdict, by their names."""
    tools = samples.zip_of(("setup.exe", b"MZ" + bytes(500)), ("read me.txt", b"hello"))
    pictures = {"a.png": samples.picture(), "wide.png": samples.picture(size=(300, 20))}
    documents = {"a.pdf": samples.pdf(), "broken.pdf": samples.pdf()[:200], "a.docx": samples.docx_file()}
    disguised = {"disguised.pdf": samples.picture("JPEG"), "eicar.txt": EICAR}
    blank = {"white.png": samples.white_picture(), "blank.pdf": samples.pdf(b""), "empty.txt": b""}
    others = {"note.txt": samples.TEXT, "Large.bin": samples.noise(1_500_000)}
    return pictures | documents | disguised | blank | others | {"tools.zip": tools, "bomb.zip": samples.zip_bomb()}


def replay(client: ApiClient, context: str, changes: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    response: dict[str, Any] = data(client.post(f"/contexts/{context}/replay", {"changes": changes, **more}))
    counted = sum(group["count"] for name in GROUPS for group in response[name]) + response["unknown"]["count"]
    assert response["judged"] == counted + response["unchanged"]
    return response


def counts(groups: list[dict[str, Any]]) -> dict[str, int]:
    return {group["reason"]: group["count"] for group in groups}


@pytest.mark.engine
def test_a_change_is_shown_by_what_it_would_have_done(client: ApiClient) -> None:
    context = client.create_context(scan_for_viruses=False)
    for name in ("a.png", "wide.png", "white.png", "a.pdf"):
        client.upload(name, files()[name], context=context)
    policies = {"image": {"max_width": 100}, "content_types": {"allow": ["image/*"], "mode": "quarantine"}}
    response = replay(client, context, {"reject_blank_files": False, "policies": policies})
    assert (response["judged"], response["unchanged"], response["truncated"]) == (4, 1, False)
    assert counts(response["would_reject"]) == {"image_dimensions": 1}
    assert counts(response["would_accept"]) == {"blank_document": 1}
    assert counts(response["would_quarantine"]) == {"content_type_not_allowed": 1}
    assert response["unknown"] == {"count": 0, "because": []}
    (sample,) = response["would_reject"][0]["samples"]
    assert (sample["filename"], sample["size_bytes"]) == ("wide.png", len(files()["wide.png"]))
    assert data(client.get(f"/reports/{sample['report_id']}"))["file"]["original_filename"] == "wide.png"


def test_a_replay_changes_nothing_and_shows_at_most_five_samples(client: ApiClient) -> None:
    context = client.create_context(scan_for_viruses=False)
    for number in range(7):
        client.store(f"{number}.txt", b"words", context=context)
    before, decisions = data(client.get(f"/contexts/{context}")), len(client.decisions())
    response = replay(client, context, {"allowed_extensions": ["pdf"]})
    assert counts(response["would_reject"]) == {"extension_not_allowed": 7}
    (group,) = replay(client, context, {"policies": {"min_size_bytes": {"bytes": 6}}})["would_reject"]
    names = [sample["filename"] for sample in group["samples"]]
    assert (group["count"], names) == (7, ["0.txt", "1.txt", "2.txt", "3.txt", "4.txt"])
    assert data(client.get(f"/contexts/{context}")) == before
    assert len(client.decisions()) == decisions
    assert replay(client, context, {})["unchanged"] == 7


def test_what_was_not_measured_is_unknown_and_says_why(client: ApiClient) -> None:
    context = client.create_context(allowed_extensions=["png"], scan_for_viruses=False)
    client.upload("a.pdf", files()["a.pdf"], context=context)
    client.upload("a.png", files()["a.png"], context=context)
    unknown = replay(client, context, {"allowed_extensions": [], "scan_for_viruses": True})["unknown"]
    assert unknown["count"] == 2
    assert {cause["code"]: cause["count"] for cause in unknown["because"]} == {"not_scanned": 1, "not_received": 1}
    assert all(cause["detail"].endswith(".") for cause in unknown["because"])


@pytest.mark.engine
def test_only_uploads_of_the_context_and_since_the_moment_are_judged(client: ApiClient) -> None:
    context, other = client.create_context(**CHECKS_OFF), client.create_context(**CHECKS_OFF)
    client.store("a.txt", context=other)
    client.store("a.txt", context=context)
    moment = datetime.now(UTC)
    client.store("b.txt", context=context)
    assert replay(client, context, {})["judged"] == replay(client, context, {}, since="1h")["judged"] == 2
    assert replay(client, context, {}, since=moment.isoformat())["judged"] == 1
    assert replay(client, context, {}, since=(moment + timedelta(days=1)).isoformat())["judged"] == 0


def test_only_administrators_replay_changes_of_their_own_tenant_that_can_be_made(client: ApiClient) -> None:
    context = client.create_context()
    body: dict[str, Any] = {"changes": {}}
    for scope in ("upload", "metadata", "download", "delete"):
        caller = client.with_credential(client.create_key(scope))
        assert caller.post(f"/contexts/{context}/replay", body).status_code == 403
    assert_not_found(client.other_tenant_client().post(f"/contexts/{context}/replay", body))
    assert_not_found(client.post("/contexts/nosuch/replay", body))
    for changes, since, field in [
        ({"policies": {"nosuch": {}}}, None, "changes.policies.nosuch"),
        ({"policies": {"filename_pattern": {"pattern": "("}}}, None, "changes.policies.filename_pattern.pattern"),
        ({"policies": {"content_types": {"allow": MANY_TYPES}}}, None, "changes.policies.content_types.allow"),
        ({"max_file_size_mb": 501}, None, "changes.max_file_size_mb"),
        ({"display_name": "Other"}, None, "changes.display_name"),
        *(({}, since, "since") for since in ("last week", "0d", "99999999d", "2026-01-01T00:00:00", 7)),
    ]:
        path = f"/contexts/{context}/replay"
        body = {"changes": changes} | ({} if since is None else {"since": since})
        assert_validation_error(client.post(path, body), field)
        assert_validation_error(client.post(path, {}), "changes")


def _policy(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from(["off", "report", "quarantine", "enforce"]).map(lambda mode: {"mode": mode, **fields})


CHECK_MODE = st.sampled_from(["report", "quarantine", "enforce"])
RULES = st.fixed_dictionaries(
    {
        "allowed_extensions": st.sampled_from([[], ["pdf", "png"], ["zip", "txt", "docx", "bin", "png"]]),
        "max_file_size_mb": st.sampled_from([1, 10]),
        "reject_blank_files": st.booleans(),
        "reject_corrupt_files": st.booleans(),
        "scan_for_viruses": st.booleans(),
        "check_modes": st.fixed_dictionaries({}, optional=dict.fromkeys(("integrity", "blank", "malware"), CHECK_MODE)),
        "policies": st.fixed_dictionaries(
            {},
            optional={
                "content_types": _policy(allow=["image/*", "application/pdf"]),
                "encrypted": _policy(),
                "active_content": _policy(),
                "programs_in_archives": _policy(),
                "image": _policy(max_width=100),
                "document": _policy(max_pages=1),
                "archive": _policy(max_members=1),
                "min_size_bytes": _policy(bytes=100),
                "filename_pattern": _policy(pattern="[a-z.]+"),
                "duplicates": _policy(),
            },
        ),
    }
)


def test_a_replay_says_what_the_change_then_does(client: ApiClient) -> None:
    known = 0

    @given(earlier=RULES, rules=RULES)
    @settings(
        max_examples=amount("REPLAYS", short=2, full=60),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    def compare(earlier: dict[str, Any], rules: dict[str, Any]) -> None:
        nonlocal known
        context = client.create_context(**earlier)
        before = uploaded(client, context)
        response = replay(client, context, rules)
        after = uploaded(client, client.create_context(**rules))
        again = {name: judged_again(before[name], after[name]) for name in files()}
        assert {name: each for name, each in again.items() if each not in (None, verdict_of(after[name]))} == {}
        assert response["unknown"]["count"] == list(again.values()).count(None)
        assert response["unchanged"] == sum(again[name] == verdict_of(before[name]) for name in files())
        known += len(files()) - response["unknown"]["count"]

    compare()
    assert known


def uploaded(client: ApiClient, context: str) -> dict[str, dict[str, Any]]:
    """Upload all files; return the rows of their decisions by file name."""
    for name, content in files().items():
        assert client.upload(name, content, context=context).status_code in (201, 400)
    return {row["original_filename"]: row for row in client.decisions() if row["context_key"] == context}


def verdict_of(row: Mapping[str, Any]) -> Verdict:
    return Verdict(row["outcome"], row["reason"])


def judged_again(before: Mapping[str, Any], after: Mapping[str, Any]) -> Verdict | None:
    """Return what the rules of one row make of the facts of the other; None if that is unknown."""
    facts, rules = Facts.from_json(before["facts"]), Rules.from_json(after["rules"])
    again = judge_again(facts, verdict_of(before), Rules.from_json(before["rules"]), rules)
    return again if isinstance(again, Verdict) else None
