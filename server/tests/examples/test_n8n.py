"""The workflow for n8n: its nodes are carried out as n8n does, with the part of its expressions that they use."""

import json
import re
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import httpx

from tests.api.samples import picture
from tests.examples.conftest import BROKEN, EXAMPLES

WORKFLOW = json.loads((EXAMPLES / "n8n" / "workflow.json").read_text(encoding="utf-8"))
NODES: dict[str, dict[str, Any]] = {node["type"].rpartition(".")[2]: node for node in WORKFLOW["nodes"]}


def evaluated(text: str, environment: Mapping[str, str], item: Mapping[str, Any]) -> str:
    """Return the value of a parameter: a text, or behind `=` one with paths, the first of which that is there counts."""
    if not text.startswith("="):
        return text

    def value(found: re.Match[str]) -> str:
        for path in found[1].split(" ?? "):
            source, *names = path.strip().replace("?.", ".").split(".")
            reached: Any = {"$env": environment, "$json": item}[source]
            for name in names:
                reached = None if reached is None else reached.get(name)
            if reached is not None:
                return str(reached)
        raise AssertionError(f"nothing is at {found[1]}")

    return re.sub(r"\{\{(.+?)\}\}", value, text[1:])


def run_workflow(name: str, content: bytes, environment: Mapping[str, str]) -> tuple[int, str]:
    """Carry out the workflow for a file that arrives, and return status and body of its response."""
    binary = {f"{NODES['webhook']['parameters']['options']['binaryPropertyName']}0": (name, content)}
    request = NODES["httpRequest"]["parameters"]
    fields = request["bodyParameters"]["parameters"]
    headers, of_kind = request["headerParameters"]["parameters"], itemgetter("parameterType")
    response = httpx.request(
        request["method"],
        evaluated(request["url"], environment, {}),
        headers={header["name"]: evaluated(header["value"], environment, {}) for header in headers},
        data={each["name"]: each["value"] for each in fields if of_kind(each) == "formData"},
        files={
            each["name"]: binary[each["inputDataFieldName"]] for each in fields if of_kind(each) == "formBinaryData"
        },
    )
    item = {"statusCode": response.status_code, "body": response.json()}
    respond = NODES["respondToWebhook"]["parameters"]
    status = evaluated(respond["options"]["responseCode"], environment, item)
    return int(status), evaluated(respond["responseBody"], environment, item)


def test_workflow_stores_a_file_and_returns_the_sentence_for_another(
    environment: Mapping[str, str], sentence: str, newest: Callable[[], str]
) -> None:
    status, response = run_workflow("n8n.png", picture(), environment)
    assert (status, newest()) == (201, "n8n.png")
    assert response.startswith("file_")
    assert run_workflow("broken.png", BROKEN, environment) == (400, sentence)


def test_workflow_reads_the_response_of_a_rejection_and_connects_its_nodes() -> None:
    request = NODES["httpRequest"]["parameters"]
    assert request["options"]["response"]["response"] == {"fullResponse": True, "neverError": True}
    names, connections = [node["name"] for node in WORKFLOW["nodes"]], WORKFLOW["connections"]
    reached = [connections[name]["main"][0][0]["node"] for name in names[:-1]]
    assert reached == names[1:]
