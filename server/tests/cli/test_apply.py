"""`sluice apply`: contexts, webhooks, CORS and hash list entries of a tenant from one file."""

from pathlib import Path

import pytest

from tests.api.responses import data, page
from tests.cli.commands import Sluice, sluice_in
from tests.rows import each_row
from tests.service import ApiClient

RULES = """\
contexts:
  claims:
    display_name: Claims
    allowed_extensions: [PDF, png]
    max_file_size_mb: 20
    policies:
      filename_pattern: {mode: enforce, pattern: "[a-z].*"}
    retention_days: 30
  archive:
    display_name: Archive
    status: inactive
webhooks:
  - url: http://127.0.0.1:9/hook
    events: [file.stored, file.rejected]
    contexts: [claims]
cors:
  allowed_origins: ["https://tools.example.com"]
hash_lists:
  - digest: 5d41402abc4b2a76b9719d911017c592
    reason: INC-42
  - digest: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824
    list: allow
    expires_at: 2099-01-31T12:00:00Z
  - digest: 5d41402abc4b2a76b9719d911017c593
    expires_at: 2020-01-31T12:00:00Z
"""


@pytest.fixture
def sluice(client: ApiClient, tmp_path: Path) -> Sluice:
    """The command with the URL of the service and an API key of an administrator."""
    return sluice_in(tmp_path / "home", URL=client.service.url, API_KEY=client.create_key("admin").text)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "rules.yaml"
    file.write_text(RULES)
    return file


def test_a_file_is_applied_once_and_then_changes_nothing(sluice: Sluice, client: ApiClient, rules: Path) -> None:
    rules.write_text(RULES.replace("20\n", "20\n    sanitise: {remove: [metadata, active_content]}\n"))
    first = sluice("apply", str(rules))
    assert (first.code, first.err) == (0, "")
    assert "+ context claims" in first.out
    assert "whsec_" in first.out
    assert first.out.splitlines()[-1] == "5 created, 2 changed."
    claims = data(client.get("/contexts/claims"))
    assert (claims["max_file_size_mb"], claims["retention_days"]) == (20, 30)
    assert data(client.get("/contexts/archive"))["status"] == "inactive"
    assert data(client.get("/cors")) == {"allowed_origins": ["https://tools.example.com"]}
    listed = {one["digest"][:4]: (one["list"], one["reason"]) for one in page(client.get("/hash-lists"))[0]}
    assert listed == {"5d41": ("deny", "INC-42"), "2cf2": ("allow", None)}
    second = sluice("apply", str(rules), "--dry-run", "--exit-code")
    assert (second.code, second.out) == (0, "Nothing would change.\n")
    assert sluice("apply", str(rules)).out == "Nothing to change.\n"


def test_a_dry_run_shows_the_difference_and_changes_nothing(sluice: Sluice, client: ApiClient, rules: Path) -> None:
    assert sluice("apply", str(rules)).code == 0
    rules.write_text(RULES.replace("max_file_size_mb: 20", "max_file_size_mb: 30"))
    shown = sluice("apply", str(rules), "--dry-run")
    assert (shown.code, shown.out.splitlines()) == (
        0,
        ["~ context claims", "    max_file_size_mb: 20 -> 30", "1 resources would change."],
    )
    assert sluice("apply", str(rules), "--dry-run", "--exit-code").code == 1
    assert data(client.get("/contexts/claims"))["max_file_size_mb"] == 20
    assert sluice("apply", str(rules)).out.splitlines()[-1] == "1 changed."
    assert data(client.get("/contexts/claims"))["max_file_size_mb"] == 30


def test_changed_entry_of_a_hash_list_is_written_again_and_a_missing_one_stays(
    sluice: Sluice, client: ApiClient, rules: Path
) -> None:
    assert sluice("apply", str(rules)).code == 0
    rules.write_text(RULES.partition("hash_lists:")[0] + "hash_lists: [{digest: 5d41402abc4b2a76b9719d911017c592}]\n")
    shown = sluice("apply", str(rules), "--prune")
    assert shown.out.splitlines() == [
        "~ hash 5d41402abc4b2a76b9719d911017c592",
        '    reason: "INC-42" -> null',
        "1 changed.",
    ]
    assert len(page(client.get("/hash-lists"))[0]) == 2


def test_what_the_file_does_not_name_stays_without_prune(sluice: Sluice, client: ApiClient, rules: Path) -> None:
    other = client.create_context()
    data(client.post("/webhook-endpoints", {"url": "http://127.0.0.1:9/other", "events": ["*"]}), 201)
    assert sluice("apply", str(rules)).code == 0
    assert data(client.get(f"/contexts/{other}"))["status"] == "active"
    assert len(data(client.get("/webhook-endpoints"))) == 2
    pruned = sluice("apply", str(rules), "--prune")
    assert pruned.out.splitlines()[-1] == "1 changed, 1 removed."
    assert data(client.get(f"/contexts/{other}"))["status"] == "inactive"
    assert [one["url"] for one in data(client.get("/webhook-endpoints"))] == ["http://127.0.0.1:9/hook"]


@each_row(
    "old, new, problem",
    [
        ("max_file_size_mb: 20", "max_file_size_mb: many", ":5: contexts.claims.max_file_size_mb: expected an integer"),
        ("retention_days: 30", "retention: 30", ":8: contexts.claims.retention: unknown field"),
        ("mode: enforce", "mode: maybe", ":7: contexts.claims.policies.filename_pattern"),
        ("status: inactive", "status: gone", ":11: contexts.archive.status: expected active or inactive, found 'gone'"),
        ("[file.stored, file.rejected]", "[file.lost]", ":14: webhooks.0.events.0: expected a type of event"),
        ("cors:", "origins:", ":16: origins: unknown section"),
        ("    retention_days: 30\n", "    max_file_size_mb: 3\n", ":8: max_file_size_mb: given twice"),
        ("2099-01-31T12:00:00Z", "2099-01-31", ":23: hash_lists.1.expires_at: expected a moment with a zone such as"),
        ("    list: allow\n", "    list: block\n", ":22: hash_lists.1.list: expected "),
        (
            "5d41402abc4b2a76b9719d911017c593",
            "5D41402ABC4B2A76B9719D911017C592",
            ":24: hash_lists.2.digest: another entry",
        ),
        ("    reason: INC-42\n", "    list: allow\n", ":19: hash_lists.0.digest: allow entries need a SHA-256"),
        ("contexts:\n", "contexts: [\n", "rules.yaml"),
    ],
)
def test_a_problem_names_its_line_and_field(sluice: Sluice, rules: Path, *, old: str, new: str, problem: str) -> None:
    assert old in RULES
    rules.write_text(RULES.replace(old, new))
    refused = sluice("apply", str(rules))
    assert (refused.code, refused.out) == (2, "")
    assert problem in refused.err


@each_row(
    "text, problem",
    [
        (
            "a: &a [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1 or ''}, *a{n - 1 or ''}]\n" for n in range(1, 60)),
            "aliases",
        ),
        ("a: &a {x: 1}\n" + "".join(f"b{n}: &a {{<<: [*a, *a]}}\n" for n in range(60)), "aliases"),
        ("a: &a [*a]\n", "contains itself"),
        ("[" * 5000, "nested too deep"),
    ],
)
def test_aliases_that_multiply_are_refused_at_once(sluice: Sluice, rules: Path, *, text: str, problem: str) -> None:
    rules.write_text(text)
    refused = sluice("apply", str(rules))
    assert (refused.code, refused.out) == (2, "")
    assert problem in refused.err


def test_a_resource_that_is_refused_does_not_stop_the_others(sluice: Sluice, client: ApiClient, rules: Path) -> None:
    rules.write_text(RULES.replace("retention_days: 30", "storage_config_id: bkt_unknown"))
    result = sluice("apply", str(rules))
    assert result.code == 1
    assert "context claims:" in result.err
    assert result.out.splitlines()[-1].endswith("1 refused.")
    assert data(client.get("/contexts/archive"))["status"] == "inactive"
