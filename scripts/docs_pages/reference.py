"""`docs/reference/`: the OpenAPI document, and the same in Markdown. `sluice.api.app` makes the document."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from docs_pages.errors import every_error
from docs_pages.examples import ANSWERS, MESSAGES, SENT_HEADERS, VALUES, example_of
from docs_pages.markdown import anchor, fenced, made_from, page, table
from docs_pages.schemas import Schema, rules, shown_default
from docs_pages.words import (
    CONFLICTS,
    IN_SCHEMA,
    NOTES,
    ONLY_CONSOLE,
    ONLY_LINKS,
    ONLY_RESTORES,
    ONLY_UPLOADS,
    meaning_of,
)
from sluice.access import PUBLIC_ROUTES, ROUTE_SCOPES
from sluice.api.app import make_endpoints
from sluice.errors import SluiceError

_SERVER: Final = "http://127.0.0.1:8000"
# Needs no credential and has no envelope: described separately.
_OWN_SECTIONS: Final = ("Health", "Public keys")


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path, and its part of the document."""

    method: str
    path: str
    said: Mapping[str, Any]

    @property
    def route(self) -> tuple[str, str]:
        """Method and path, as in the tables of `words`."""
        return self.method, self.path

    @property
    def body(self) -> Mapping[str, Any]:
        """The documented bodies, by media type."""
        content: Mapping[str, Any] = self.said.get("requestBody", {}).get("content", {})
        return content

    @property
    def title(self) -> str:
        """The heading."""
        return str(self.said["summary"]).capitalize().replace("api", "API").replace(" url", " URL")


@cache
def _document() -> dict[str, Any]:
    return make_endpoints().openapi()


def openapi_page() -> str:
    """Return `openapi.json`."""
    return json.dumps(_document(), indent=2, ensure_ascii=False) + "\n"


def api_page() -> str:
    """Return `api.md`."""
    document = _document()
    operations = [operation for operation in _operations(document) if operation.said["tags"][0] not in _OWN_SECTIONS]
    schemas: Mapping[str, Schema] = document["components"]["schemas"]
    blocks: list[str] = []
    for tag in dict.fromkeys(operation.said["tags"][0] for operation in operations):
        of_tag = [operation for operation in operations if operation.said["tags"][0] == tag]
        blocks += [f"## {tag}", *(block for operation in of_tag for block in _endpoint(operation, schemas))]
    head = made_from("the OpenAPI document of server/src/sluice/api")
    return page(head, _introduction(operations), *blocks, *_shapes(schemas), _ELSEWHERE)


def _operations(document: Mapping[str, Any]) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, said in methods.items():
            yield Operation(method, path, said)


def _introduction(operations: list[Operation]) -> str:
    rows = [
        (f"[{one.title}](#{anchor(one.title)})", f"`{one.method.upper()} {one.path}`", _scope_words(one))
        for one in operations
    ]
    return f"{_INTRO}\n\n{table(('Operation', 'Endpoint', 'Scope'), rows)}"


def _endpoint(one: Operation, schemas: Mapping[str, Schema]) -> Iterator[str]:
    yield f"### {one.title}"
    yield f"`{one.method.upper()} {one.path}`"
    yield str(one.said["description"])
    yield f"Scope: {_scope_words(one)}."
    if "parameters" in one.said:
        yield table(
            ("Parameter", "In", "Rules", "Default", "Meaning"), [_parameter(said) for said in one.said["parameters"]]
        )
    for media_type, content in one.body.items():
        if content["schema"].get("format") == "binary":
            yield f"Body (`{media_type}`): bytes of the file."
        elif options := _options(content["schema"]):
            yield f"Body (`{media_type}`), one of these:"
            for option in options:
                yield str(schemas[option["$ref"].rpartition("/")[2]]["description"])
                yield _body_table(option, schemas)
        elif "properties" not in content["schema"] and "$ref" not in content["schema"]:
            yield f"Body (`{media_type}`): text."
        else:
            yield f"Body (`{media_type}`):"
            yield _body_table(content["schema"], schemas)
    yield fenced("sh", _curl(one, schemas))
    yield from _success(one, schemas)
    if one.route in NOTES:
        yield NOTES[one.route]
    errors = [f"{error.status} [`{error.code}`](../errors.md#{error.code})" for error in failures(one)]
    if errors:
        yield f"Errors: {', '.join(errors)}."


def _options(schema: Schema) -> list[Schema]:
    """Return the schemas of which a body has one, none if it has only one schema."""
    return [*schema.get("oneOf", ()), *schema.get("anyOf", ())]


def _scope_words(one: Operation) -> str:
    if _is_public(one):
        return "none, and no credential"
    scope = ROUTE_SCOPES[one.method.upper(), one.path]
    return "any valid credential" if scope is None else f"`{scope.value}`"


def _is_public(one: Operation) -> bool:
    return (one.method.upper(), one.path) in PUBLIC_ROUTES


def _parameter(said: Mapping[str, Any]) -> tuple[str, ...]:
    schema = {**said["schema"], "anyOf": [one for one in said["schema"].get("anyOf", []) if one != {"type": "null"}]}
    meaning = said.get("description") or meaning_of(said["name"])
    return (
        f"`{said['name']}`",
        said["in"],
        rules(schema if schema["anyOf"] else said["schema"]),
        shown_default(said["schema"]),
        meaning,
    )


def _body_table(schema: Schema, schemas: Mapping[str, Schema]) -> str:
    name = schema.get("$ref", "").rpartition("/")[2]
    found = schemas[name] if name else schema
    required = set(found.get("required", ()))
    rows = [
        (
            f"`{field}`",
            "yes" if field in required else "no",
            rules(inner),
            shown_default(inner),
            _meaning(name, field, inner),
        )
        for field, inner in found["properties"].items()
    ]
    return table(("Field", "Required", "Rules", "Default", "Meaning"), rows)


def _meaning(schema_name: str, field: str, schema: Schema) -> str:
    own = IN_SCHEMA.get(schema_name, {}).get(field)
    said = schema.get("description") or next(
        (o["description"] for o in schema.get("anyOf", ()) if "description" in o), None
    )
    return str(own or said or meaning_of(field))


def _curl(one: Operation, schemas: Mapping[str, Schema]) -> str:
    path = one.path
    for name in (
        *("tenant_id", "context_key", "file_id", "config_id", "api_key_id", "token_id", "locale", "report_id"),
        *("endpoint_id", "delivery_id", "upload_id", "job_id", "check_name", "digest", "example_id"),
    ):
        path = path.replace(f"{{{name}}}", str(VALUES[name]))
    method = {"get": "", "head": "--head "}.get(one.method, f"-X {one.method.upper()} ")
    credential = "" if _is_public(one) else ' -H "Authorization: Bearer $SLUICE_API_KEY"'
    lines = [f"curl {method}{_SERVER}{path}{credential}"]
    if "multipart/form-data" in one.body:
        lines[0] = lines[0].replace(method, "")
        fields = """file=@dent.png -F context=claims -F 'metadata={"claim": "2026-0042"}'"""
        lines.append(f"-F {'file=@invoice.pdf' if 'metadata' not in str(one.said['requestBody']) else fields}")
    lines += [
        f"-H '{said['name']}: {SENT_HEADERS[said['name']]}'"
        for said in one.said.get("parameters", ())
        if said["in"] == "header" and said["required"]
    ]
    if "application/offset+octet-stream" in one.body and one.said["requestBody"]["required"]:
        lines += ["-H 'Content-Type: application/offset+octet-stream'", "--data-binary @dent.png"]
    if "text/csv" in one.body:
        lines += ["-H 'Content-Type: text/csv'", "--data-binary @hashes.csv"]
    if "application/json" in one.body:
        sent = json.dumps(request_example(one, schemas), indent=2, ensure_ascii=False)
        lines += ["-H 'Content-Type: application/json'", f"-d '{sent}'"]
    return " \\\n  ".join(lines)


def request_example(one: Operation, schemas: Mapping[str, Schema]) -> Mapping[str, Any]:
    """Return the JSON body that the example sends."""
    schema = one.body["application/json"]["schema"]
    name = [*_options(schema), schema][0]["$ref"].rpartition("/")[2]
    example: Mapping[str, Any] = schemas[name]["examples"][0]
    return example


def _success(one: Operation, schemas: Mapping[str, Schema]) -> Iterator[str]:
    status, schema = success_of(one)
    if schema is None:
        yield f"Returns {status} without a body."
        return
    if schema.get("format") == "binary":
        yield f"Returns {status} with the bytes of a file."
        return
    data = schemas[schema["$ref"].rpartition("/")[2]]["properties"]["data"]
    yield f"Returns {status} with `data` = {rules(data)}:"
    yield fenced("json", json.dumps(reply_example(one, schemas), indent=2, ensure_ascii=False))


def success_of(one: Operation) -> tuple[int, Schema | None]:
    """Return the status of a success and the schema of its body, None if it has none."""
    status, said = next((status, said) for status, said in one.said["responses"].items() if status.startswith("2"))
    if "content" not in said:
        return int(status), None
    return int(status), said["content"].get("application/json", next(iter(said["content"].values())))["schema"]


def reply_example(one: Operation, schemas: Mapping[str, Schema]) -> dict[str, Any]:
    """Return the body of a success that has one, with the values that the example sends."""
    _, schema = success_of(one)
    if schema is None:
        raise ValueError(f"{one.route} has a response without a body")
    if one.route not in MESSAGES:
        raise ValueError(f"{one.route} has no message in MESSAGES of scripts/docs_pages/examples.py")
    body: dict[str, Any] = example_of(schema, schemas) | {"message": MESSAGES[one.route]}
    if isinstance(body["data"], dict):
        sent = request_example(one, schemas) if "application/json" in one.body else {}
        known = {name: value for name, value in sent.items() if name in body["data"] and name != "access_key_id"}
        body["data"] = {**body["data"], **known, **ANSWERS.get(one.route, {})}
    return body


def failures(one: Operation) -> list[type[SluiceError]]:
    """Return the errors behind the documented statuses that this operation can really raise."""
    documented = {int(status) for status in one.said["responses"]}
    return [error for error in every_error() if error.status in documented and _can_happen(error, one)]


def _can_happen(error: type[SluiceError], one: Operation) -> bool:
    takes_files = not _FILES.isdisjoint(one.body)
    if error in ONLY_LINKS | ONLY_CONSOLE or (error in ONLY_UPLOADS and not takes_files):
        return False
    if error in ONLY_RESTORES:
        return one.path.endswith("/restore")
    if error.code == "scope_missing":
        return ROUTE_SCOPES.get((one.method.upper(), one.path)) is not None
    if error.code == "validation_error":
        return bool(one.body) or any(_is_judged(said) for said in one.said.get("parameters", ()))
    return error.status != _CONFLICT or error in CONFLICTS.get(one.route, ())


_CONFLICT: Final = 409
_FILES: Final = frozenset({"multipart/form-data", "application/offset+octet-stream"})


def _is_judged(parameter: Mapping[str, Any]) -> bool:
    """Return whether a value can be wrong: any text is a valid id."""
    schema = parameter["schema"]
    return any("enum" in one or one.get("type") == "integer" for one in (schema, *schema.get("anyOf", ())))


def _shapes(schemas: Mapping[str, Schema]) -> Iterator[str]:
    yield "## Shapes"
    yield "The objects that stand in `data`, and the ones within request bodies."
    for name, schema in schemas.items():
        if "nvelope" in name or name == "ErrorEnvelope" or name.startswith(("Create", "Update", "Add")):
            continue
        yield f"### {name}"
        yield str(schema["description"]) if "description" in schema else ""
        if "enum" in schema:
            yield f"One of: {', '.join(f'`{value}`' for value in schema['enum'])}."
            continue
        yield table(
            ("Field", "Type", "Meaning"),
            [
                (f"`{field}`", rules(inner), _meaning(name, field, inner))
                for field, inner in schema["properties"].items()
            ],
        )


_INTRO: Final = """
# API reference

The same for tools: [openapi.json](openapi.json). A running service shows it at `/docs`, and serves it at
`/openapi.json`.

## In general

- **Credential.** Every endpoint needs `Authorization: Bearer <API key or JWT>`; an API key may also be sent without the
  word `Bearer`. The scope `admin` includes all others. The examples take the key from the environment variable
  `SLUICE_API_KEY`. The messages are open to everybody.
- **Envelope.** Every reply is JSON: `status` (`SUCCESS` or `ERROR`), `message`, then `data` or `errors`, and
  `timestamp`. Lists of contexts, files and API keys also have `pagination`.
- **Bodies.** JSON bodies have at most 65,536 bytes. Types are strict: `"10"` and `1.5` are not integers. Unknown fields
  are refused, unknown query parameters and form fields are ignored. Null is accepted only where the rules list it.
- **Times** are ISO 8601 in UTC, with `Z`. **Ids** are opaque strings.
- **Headers of every reply:** `Request-Id`. Of failures: `Sluice-Error-Code`, the code in the tables below.
- **Any request** may also get 400 if its framing is ambiguous (two `Content-Length`, for example), and 404 or 405 if
  there is no such path or method. [All errors](../errors.md) are on a page of their own.

## Operations
"""

_ELSEWHERE: Final = """
## Other endpoints

- `GET /health/live` returns 200 and `{"status": "up"}` as long as the process serves. `GET /health/ready` returns 200,
  or 503 if an engine is down, with the worst state; the operator's metrics token shows each engine. Neither needs a
  credential. [Operations](../operations.md#health) has the details.
- `GET /.well-known/sluice-receipts.json` lists the public keys of [receipts](../receipts.md), without a credential.
- `GET /api/v1/downloads/{file_id}`, `HEAD /api/v1/downloads/{file_id}` and `GET /api/v1/downloads/{file_id}/preview`, with `expires` and `signature`, are the
  download URLs of the local store, with `disposition=inline` those of files that a browser shows, and those of
  [previews](../previews.md). The signature is the credential: a changed or expired link is 403 before a database
  query. The file is sent as an attachment, with `ETag`, single byte ranges (206, 416) and `If-None-Match` (304). Files
  in a bucket are downloaded from the bucket itself.
- `GET /api/v1/check-content/{token}` and `HEAD /api/v1/check-content/{token}` are what an
  [external check](../how-to/external-checks.md) reads while it is asked, with single byte ranges (206, 416).
- `GET /u/{token}` and `HEAD /u/{token}` are [the upload page](../uploads.md#let-people-upload-without-an-application) of an
  upload token, `POST /u/{token}` takes plain HTML forms. The token is the credential. The responses are pages, in the
  sender's language, or redirects (303).
- `GET /static/sluice-upload.js` is [the element](../uploads.md#drop-in-an-element) for pages of any origin.
- `GET /docs` shows this reference as a page with forms to try it; it loads nothing from other hosts.
"""
