"""`docs/events.md`: events and webhooks, with every type, as `sluice.events.catalogue` declares them."""

import json
from datetime import UTC, datetime

from docs_pages.markdown import made_from, page, table
from sluice.events.catalogue import TYPES
from sluice.events.record import StoredEvent

_INTRO = """
# Events and webhooks

Whatever changes a tenant's things writes an event in the same transaction: what was committed has its event, and
nothing else has. Read events from the feed, or have them sent to an endpoint of yours.

Every event has a `sequence`, which counts the events of the tenant without a gap, in the order of commits. Events are
kept for 30 days. They name files and callers, never a threat or a secret.
"""

_FEED = """
## The feed

`GET /api/v1/events` returns events in their order, at most `limit`; `after` is the id of the last one that you have.
With `wait=30` the request waits for the next event. `type` may be repeated. The scope is `admin`.

```sh
curl -H "Authorization: Bearer $SLUICE_API_KEY" "$SLUICE_URL/api/v1/events?after=evt_01k…&wait=30"
```

With `Accept: text/event-stream` the same request is a stream of server-sent events, from now on or from behind
`Last-Event-ID`. A process lets 10 readers of a tenant wait at once, and 100 in all; the next gets 429. An `after` that is
older than 30 days gets 422: begin without it.

`sluice events tail` prints events as they happen.
"""

_HOOKS = """
## Webhooks

`POST /api/v1/webhook-endpoints` takes a `url`, the `events` it gets (types, or `["*"]`) and, if wanted, only some
`contexts`. The response shows the secret, once. A tenant has at most 10 endpoints.

An event is sent as JSON by POST. A status of 2xx takes it. Everything else is tried again, with the same
`webhook-id`: after 5 seconds, 5 minutes, 30 minutes, and 2, 5, 10, 14, 20 and 24 hours, each ± 10 %, ten attempts in
all. A longer `Retry-After` is honoured up to 24 hours. Redirects are not followed; no response within 15 seconds is a
failure. A receiver that responds with 410 is disabled, and so is one to which every delivery has failed for five days; the
event `endpoint.disabled` tells of it.

- **At least once.** A delivery may come twice, after a crash or if your response was lost. Remember `webhook-id`.
- **In no order.** Each endpoint gets up to four events at once, and what failed comes later. Use `sequence`, or the feed.
- **Respond quickly.** Take the event, respond, and work afterwards.

`…/deliveries?status=failed` lists what was given up, with the last response (status, names of headers, 2 KB of body).
`POST /api/v1/webhook-deliveries/{id}/redeliver` sends one again, `…/recover` with `since` and `until` all of a time that
the endpoint never took. `…/test` sends an `endpoint.test`.
`sluice webhooks` does all of it: `create`, `list`, `update`, `test`, `deliveries`, `redeliver`, `recover`, `rotate-secret`
and `remove`.

### Where webhooks go

Only https, and only to public addresses: the name is resolved once for each attempt, every address is judged, and the
judged one is dialled. `SLUICE_WEBHOOK_HOSTS` lists hosts and networks inside that may be reached as well, also by http.
No proxy of the environment is used.

### Verify the signature

Deliveries are signed as [Standard Webhooks](https://www.standardwebhooks.com) defines it; libraries exist for most
languages. `webhook-signature` holds `v1,` and base64 of the HMAC-SHA-256 of `webhook-id`, `webhook-timestamp` and the
body, joined by dots, under the base64 behind `whsec_`. For 24 hours after `…/rotate-secret` there are two signatures:
one that fits is enough.

```python
from standardwebhooks import Webhook

event = Webhook(secret).verify(body, headers)  # raises if the signature or the time is wrong
```

Without a library:

```python
import base64, hashlib, hmac, time


def verify(secret: str, headers: dict[str, str], body: bytes) -> None:
    if abs(time.time() - int(headers["webhook-timestamp"])) > 300:
        raise ValueError("too old")
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    wanted = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    if not any(hmac.compare_digest(f"v1,{wanted}", one) for one in headers["webhook-signature"].split()):
        raise ValueError("wrong signature")
```

### Try a receiver

`sluice events forward --to http://localhost:3000/hook` sends events to a receiver on your machine, signed as the real
ones, and prints its response.
"""

_TYPES = """
## Types

The OpenAPI document has the schema of each type below `webhooks`. Fields may be added to `data`; what is there keeps
its meaning.
"""


def events_page() -> str:
    """Return the page."""
    rows = [(f"`{name}`", " ".join((event.__doc__ or "").split())) for name, event in TYPES.items()]
    fields = [(f"`{name}`", ", ".join(f"`{field}`" for field in event.model_fields)) for name, event in TYPES.items()]
    return page(
        made_from("server/src/sluice/events/catalogue.py"),
        _INTRO,
        _FEED,
        _HOOKS,
        _TYPES,
        table(("Type", "When"), rows),
        table(("Type", "`data`"), fields),
        f"\n## An event\n\n```json\n{json.dumps(example(), indent=2)}\n```\n",
    )


def example() -> dict[str, object]:
    """Return an event of a rejected file."""
    rejected = TYPES["file.rejected"]
    at = datetime(2026, 11, 20, 11, tzinfo=UTC)
    ids = ("evt_01kah3z5wc7rm2v9x4t8n6b1qy", "ten_01kg8p1z7gebjvk4s6dq0rwx3m")
    return StoredEvent(*ids, rejected.type, at, rejected.example, 18233).to_json()
