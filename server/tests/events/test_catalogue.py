"""The catalogue of events: each type has a sentence, and an example of its schema."""

import json

from sluice.events.catalogue import TYPES, Event
from tests.rows import each_row

MOST_BYTES = 20_000


@each_row("event", TYPES.values())
def test_the_example_of_a_type_has_all_of_its_fields_and_no_threat_or_secret(event: type[Event]) -> None:
    made = event.model_validate(event.example)
    assert made.model_dump(mode="json") == dict(event.example)
    assert event.__doc__
    assert not event.model_fields.keys() & {"threat", "detail", "secret", "api_key", "token"}


def test_an_event_with_the_longest_values_is_below_20_kb() -> None:
    stored = TYPES["file.stored"]
    texts = dict.fromkeys(("original_filename", "uploaded_by", "end_user"), "\N{ROMAN NUMERAL ONE}" * 255)
    widest = dict(stored.example) | texts | {"metadata": {"note": "x" * 4080}}
    assert len(json.dumps(stored.model_validate(widest).model_dump(mode="json"))) < MOST_BYTES
