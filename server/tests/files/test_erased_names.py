"""Whose names an erasure blanks: pure rules on texts, metadata, events and facts."""

from typing import Any

from sluice.erasures.subject import (
    BLANK_EVENT,
    EVENT_ACTORS,
    ErasureSubject,
    blank_event,
    blank_facts,
    blank_params,
    mentions,
    without_terms,
)
from sluice.events.catalogue import TYPES
from tests.rows import each_row


@each_row(
    "text, is_named",
    [
        *(
            (f"{before}Anna Schmidt{after}", True)
            for before, after in (("Asked by ", ", who left"), ("Joanna Schmidt and ", ""))
        ),
        ("ANNA SCHMIDT", True),
        *((text, False) for text in ("Joanna Schmidt", "Anna Schmidtke", "", None)),
    ],
)
def test_a_name_is_found_as_words_of_its_own(text: str | None, *, is_named: bool) -> None:
    assert mentions(text, ["Anna Schmidt"]) is is_named


def test_an_uploader_is_known_by_its_id_and_an_end_user_by_its_tokens() -> None:
    assert ErasureSubject(uploaded_by="sluice|anna").sent("sluice|anna", "whoever")
    assert not ErasureSubject(uploaded_by="sluice|anna").sent("sluice|bert", "sluice|anna")
    assert ErasureSubject(end_user="user-42").sent("utk_1", "user-42")
    # a key that is called like the person is another sender
    assert not ErasureSubject(end_user="user-42").sent("key_1", "user-42")
    assert not ErasureSubject(metadata=(("claimant", "Anna"),)).sent(None, None)


def test_metadata_are_compared_as_the_search_compares_them() -> None:
    subject = ErasureSubject(metadata=(("claim", "7"), ("open", "true")))
    assert subject.is_in({"claim": 7, "open": True, "more": None})
    assert not subject.is_in({"claim": 7})
    assert not subject.is_in({"claim": 7.0, "open": True})
    assert not subject.is_in(["claim"])
    assert not ErasureSubject(end_user="a").is_in({})


def test_ids_of_keys_and_short_values_are_no_names() -> None:
    assert ErasureSubject(uploaded_by="key_1").terms() == ()
    assert ErasureSubject(metadata=(("a", "7"), ("b", "Anna"))).terms(["Anna S."]) == ("Anna", "Anna S.")


def test_texts_that_name_the_person_are_blanked_at_any_depth_and_an_event_keeps_what_names_nobody() -> None:
    params = {"filter": {"uploaded_by": "sluice|anna", "context_key": "claims"}, "ids": ["a", "of sluice|anna"], "n": 7}
    blank = {"filter": {"uploaded_by": "erased", "context_key": "claims"}, "ids": ["a", "erased"], "n": 7}
    assert without_terms(params, ["sluice|anna"]) == blank
    kept: dict[str, object] = {"object": "file", "file_id": "f"}
    erased = kept | {"original_filename": "erased", "end_user": None, "metadata": {}}
    sent = kept | {"original_filename": "a.txt", "end_user": "u", "metadata": {"a": 1}}
    assert blank_event(sent, ErasureSubject(end_user="u"), is_theirs=True) == erased


def test_who_else_an_event_names_is_blanked_if_it_is_the_person() -> None:
    fields = {"file_id": "f", "original_filename": "a.txt", "downloaded_by": "sluice|anna"}
    anna, bert = ErasureSubject(uploaded_by="sluice|anna"), ErasureSubject(uploaded_by="sluice|bert")
    assert blank_event(fields, anna, is_theirs=False) == fields | {"downloaded_by": "erased"}
    assert blank_event(fields, bert, is_theirs=False) == fields
    assert blank_event(fields, bert, is_theirs=True) == fields | {"original_filename": "erased"}


_NAMES_NOBODY = {
    *("object", "file_id", "report_id", "context_key", "size_bytes", "content_type", "checksum", "outcome", "reason"),
    *("retryable", "download_count", "changed", "rules_version", "used_bytes", "quota_bytes", "percent", "month"),
    *("uploads", "limit", "config_id", "failing_since", "upload_id", "received_bytes", "token_id", "max_files"),
    *("erasure_id", "files_erased", "files_held", "endpoint_id", "url"),
    *("api_key_id", "name", "key_prefix", "scopes", "expires_at"),  # a key has a name of its own
}


def test_every_field_of_an_event_names_nobody_or_is_blanked() -> None:
    fields = {name for event in TYPES.values() for name in event.model_fields}
    assert fields == {*BLANK_EVENT, *EVENT_ACTORS} | _NAMES_NOBODY


@each_row(
    "wanted, is_actor, left",
    [
        ({"filename": "passport", "metadata": {"a": "b"}}, True, {"filename": "erased", "metadata": {"a": "erased"}}),
        ({"filename": "passport", "status": "stored"}, False, {"filename": "passport", "status": "stored"}),
        (
            {"filename": "passport", "uploaded_by": "sluice|anna", "context_key": "claims"},
            False,
            {"filename": "erased", "uploaded_by": "erased", "context_key": "claims"},
        ),
        ({"uploaded_by": "sluice|bert", "min_size": 7}, True, {"uploaded_by": "sluice|bert", "min_size": 7}),
    ],
)
def test_what_a_job_searched_for_is_blanked_if_the_person_asked_or_was_searched_for(
    wanted: dict[str, Any], left: dict[str, Any], *, is_actor: bool
) -> None:
    anna = ErasureSubject(uploaded_by="sluice|anna")
    params = {"filter": wanted, "format": "csv", "max_files": 1}
    assert blank_params(params, anna.terms(), anna, is_actor=is_actor) == params | {"filter": left}


def test_jobs_of_files_with_the_metadata_of_the_person_and_words_of_the_service() -> None:
    subject = ErasureSubject(metadata=(("claimant", "csv"),))
    params = {"filter": {"metadata": {"claimant": "csv", "claim": "7"}, "filename": "a"}, "format": "csv"}
    blank = {"metadata": {"claimant": "erased", "claim": "erased"}, "filename": "erased"}
    assert blank_params(params, subject.terms(), subject, is_actor=False) == {"filter": blank, "format": "csv"}


def test_facts_keep_measured_numbers_and_lose_texts() -> None:
    facts = {
        "filename": "anna.pdf",
        "extension": "anna schmidt",
        "size_bytes": 7,
        "examined": {"detail": "anna", "ms": 1.5, "report": {"detail": "a", "measures": {"pages": 2, "title": "Anna"}}},
        "scanned": {"outcome": "clean", "detail": "anna", "member": "anna.exe"},
        "external": [
            {"name": "policy", "verdict": "reject", "sentence": "anna", "code": "anna", "details": {"who": "anna"}}
        ],
    }
    assert blank_facts(facts) == {
        "filename": "erased",
        "extension": "",
        "size_bytes": 7,
        "examined": {"detail": "", "ms": 1.5, "report": {"detail": "", "blank_detail": "", "measures": {"pages": 2}}},
        "scanned": {"outcome": "clean", "detail": "", "member": ""},
        "external": [{"name": "policy", "verdict": "reject", "sentence": "", "code": None, "details": {}}],
    }
    assert blank_facts({"filename": "a.pdf", "extension": "pdf"}) == {"filename": "erased", "extension": "pdf"}
