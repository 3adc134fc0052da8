"""The examples of the API reference: each line runs in a shell against a service and returns the response shown."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.api.responses import data
from tests.api.samples import picture
from tests.api.test_examples import invoice_page
from tests.deployments import Deployments
from tests.docs.pages import DOCS, blocks, curl_blocks, run_line
from tests.required import require
from tests.service import ApiClient, running_service

IDS = (
    *("tenant_id", "context_id", "file_id", "report_id", "config_id", "api_key_id", "token_id", "endpoint_id"),
    *("delivery_id", "upload_id", "job_id", "example_id"),
)


@dataclass(frozen=True)
class Example:
    title: str
    line: str
    status: int
    response: dict[str, Any] | None
    """None for a response without a body."""


def _examples() -> list[Example]:
    """Return the examples in the order of the page, but for lists of what is created later, and deletions."""
    parts = re.split(r"^### ", (DOCS / "reference" / "api.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = [
        Example(
            part.splitlines()[0],
            curl_blocks(part)[0],
            int(re.findall(r"^Returns (\d{3}) ", part, re.MULTILINE)[0]),
            next(map(json.loads, blocks(part, "json")), None),
        )
        for part in parts
        if curl_blocks(part)
    ]

    def place(example: Example) -> tuple[bool, bool, bool]:
        # Deletions end what other examples need, and the bucket of the examples becomes the default, and is nowhere.
        is_last = example.title == "List webhook endpoints"
        deletes = example.line.startswith("curl -X DELETE") and "/hold" not in example.line
        return deletes, "storage-configs" in example.line, is_last

    return sorted(found, key=place)


@dataclass
class ExampleRunner:
    """Runs the examples one after the other, with the real ids in place of those shown."""

    client: ApiClient
    folder: Path
    real_ids: dict[str, str] = field(default_factory=dict)

    def run(self, example: Example) -> dict[str, Any] | None:
        assert self.client.authorization
        line = example.line.replace("48213", str((self.folder / "dent.png").stat().st_size))
        for shown, real in self.real_ids.items():
            line = line.replace(shown, real)
        key = self.client.authorization.removeprefix("Bearer ")
        command, url = f"{line} -sS -w '\\n%{{http_code}}'", self.client.service.url
        output = run_line(command, url=url, environment={"SLUICE_API_KEY": key}, folder=self.folder)
        body, _, status = output.rpartition("\n")
        assert int(status) == example.status, body
        if example.response is None:
            return None
        response: dict[str, Any] = json.loads(body)
        self._remember_ids(example.response["data"], response["data"])
        return response

    def deliver(self) -> None:
        """Let the endpoint of the examples have a delivery, by recovering a time in which something happened."""
        (endpoint,) = data(self.client.get("/webhook-endpoints"))
        path = f"/webhook-endpoints/{endpoint['endpoint_id']}"
        data(self.client.post(f"{path}/recover", {"since": "2026-01-01T00:00:00Z", "until": "2126-01-01T00:00:00Z"}))

    def prepare_jobs(self, title: str) -> None:
        """Let the jobs of the examples be as far as an example shows them."""
        match title:
            case "List jobs":
                self.client.execute_sql("UPDATE jobs SET state = 'done', due_at = NULL")
            case "Cancel job":
                self.client.execute_sql("UPDATE jobs SET state = 'waiting', due_at = '2100-01-01 00:00:00.000000'")
            case "Get export URL":
                self.client.execute_sql(
                    "UPDATE jobs SET state = 'done', kind = 'export', ended_at = created_at, due_at = NULL, "
                    "params = :params, result = :result",
                    params='{"filter": {}, "format": "ndjson"}',
                    result='{"parts": [["_exports/part", 48213]], "expires_at": "2100-01-01T00:00:00+00:00"}',
                )
            case "Get erasure":
                self.client.execute_sql("UPDATE jobs SET state = 'waiting', ended_at = NULL, due_at = NULL")
            case "Get erasure receipt":
                self.client.execute_sql(
                    "UPDATE jobs SET state = 'done', ended_at = created_at, params = :params WHERE kind = 'erasure'",
                    params='{"subject": {}, "blanked": {}}',
                )

    def add_check(self, example: Example) -> None:
        """Let the context of the examples have the external check of this one."""
        assert example.response is not None
        check = {name: value for name, value in example.response["data"].items() if name != "secret"}
        sealed = {"secret_sealed": "", "old_secret_sealed": None, "old_secret_until": None}
        self.client.execute_sql("UPDATE contexts SET external_checks = :checks", checks=json.dumps([check | sealed]))

    def prepare_examples(self, example: Example) -> None:
        """Let the context have four of what it expects when they are listed, which is no change of the page."""
        if example.title == "Hold context":
            self.client.execute_sql("UPDATE contexts SET rules_version = rules_version - 5")
        if example.title != "List examples" or example.response is None:
            return
        for number in range(4):
            files = {"file": (f"{number}.pdf", invoice_page(number))}
            made = data(self.client.request("POST", "/contexts/claims/examples", files=files), 201)
            self.real_ids.setdefault(
                example.response["data"]["examples"][0]["example_id"], made["example"]["example_id"]
            )

    def quarantine(self) -> None:
        """Put the file of the examples into quarantine, wherever the example before left it."""
        file_id = next(real for shown, real in self.real_ids.items() if shown.startswith("file_"))
        self.client.post(f"/files/{file_id}/restore")
        self.client.execute_sql("UPDATE files SET quarantined_at = created_at, threat = 'Win.Test.EICAR_HDB-1'")

    def _remember_ids(self, shown: Any, real: Any) -> None:
        if isinstance(shown, dict):
            self.real_ids |= {shown[name]: real[name] for name in IDS if shown.get(name)}
        elif "delivery_id" in shown[0]:
            self._remember_ids(shown[0], real[0])


@pytest.fixture(scope="module")
def runner(deployments: Deployments, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleRunner]:
    require("curl", "curl", apt="curl")
    folder = tmp_path_factory.mktemp("reference")
    (folder / "dent.png").write_bytes(picture())
    (folder / "invoice.pdf").write_bytes(invoice_page(5))
    (folder / "hashes.csv").write_text("44d88612fea8a8f36de82e1278abb02f,deny,INC-42\n")
    # Without the worker: a job would be as far as it has come meanwhile.
    with running_service(deployments.fresh("sqlite-local"), BUCKET_PROBE="false", WORKER_INSIDE="false") as service:
        yield ExampleRunner(service.new_client(), folder)


def _shape(value: Any) -> Any:
    """Return the field names of a JSON value without the values; some objects may hold anything."""
    if isinstance(value, dict):
        return {name: None if name in _MAPS else _shape(inner) for name, inner in value.items()}
    return [_shape(value[0])] if isinstance(value, list) and value else None


def test_every_example_returns_the_response_shown(runner: ExampleRunner) -> None:
    examples = _examples()
    assert len(examples) == 85
    for example in examples:
        if example.title == "Delete bucket":
            # The bucket of the examples is the default by now, and a default bucket cannot be deleted.
            runner.client.post(runner.client.buckets, _another_bucket())
        if example.title == "Cancel upload":  # the first one is stored by now
            runner.run(next(one for one in examples if one.title == "Create upload"))
        if example.title == "Rotate check secret":
            runner.add_check(example)
        if "quarantined file" in example.title:
            runner.quarantine()
        if example.title == "List webhook deliveries":
            runner.deliver()
        runner.prepare_jobs(example.title)
        runner.prepare_examples(example)
        response = runner.run(example)
        if example.title == "Rotate check secret":
            runner.client.execute_sql("UPDATE contexts SET external_checks = '[]', rules_version = rules_version - 1")
        if response is None or example.response is None:
            continue
        assert response["message"] == example.response["message"], example.title
        if example.title == "List events":  # each type has data of its own
            for event in (*response["data"], *example.response["data"]):
                del event["data"]
        assert _shape(response) == _shape(example.response), example.title
        assert _differing(example.response["data"], response["data"]) <= _VARYING_FIELDS, example.title


_EXTRACTS = {"messages", "page", "parameters", "formats", "units"}
"""Fields of a catalogue, of which the page shows a part only."""
_MAPS = {"params", "rejections", "limits", "metadata", "engines", "facts", "files", "allowed_origins"} | _EXTRACTS
_VARYING_FIELDS = {
    *(*IDS, *_EXTRACTS, "previous_expires_at"),
    *("limits", "first_day", "last_day", "used", "resets_at", "uploads", "bytes_stored", "downloads", "rejections"),
    *("kind", "params", "total", "done", "skipped", "started_at", "ended_at"),  # of jobs, which share an id here
    *("api_key", "key_prefix", "token", "allowed_origins", "files", "files_stored", "attempts", "created_by"),
    *(
        "token_prefix",
        "upload_url",
        "tus_url",
        "form_url",
        "length",
        "expires_at",
        "download_url",
        "preview_url",
        "size_bytes",
    ),
    *("checksum", "uploaded_by", "uploaded_by_name"),
    *("entries", "import_id", "lines", "added", "changed"),  # of hash lists: who added them, and how many
    *("quarantined_at", "scanned_at", "scanned_with", "sha256", "created_at", "updated_at", "last_used_at"),
    *("last_downloaded_at", "download_count", "storage_used_bytes", "duration_ms", "engines", "file", "report"),
}


# A delivery may be in progress, and has no receiver.
_VARYING_FIELDS |= {"secret", "old_secret_until", "failing_since", "deliveries", "event_id", "event_type", "error"}
_VARYING_FIELDS |= {"next_attempt_at", "attempted_at", "response_headers", "response_body"}
# What a replay counts depends on earlier uploads: the page shows some, and the test has none.
_MAPS |= {"would_reject", "because"}
_VARYING_FIELDS |= {"examples", "example", "rules_version"}
_VARYING_FIELDS |= {"receipt", "since", "judged", "unchanged", "would_reject", "unknown"}


def _differing(shown: Any, real: Any) -> set[str]:
    if isinstance(shown, dict):
        return {name for name in shown if shown[name] != real[name]}
    return set()


def _another_bucket() -> dict[str, Any]:
    credential = {"access_key_id": "AKIAIOSFODNN7EXAMPLE", "secret_access_key": "secret"}
    return {"name": "another", "default_bucket": "another", "set_as_default": True, **credential}
