"""Whose names an erasure blanks: pure rules on texts, metadata, events and facts."""

from sluice.erasures.subject import ErasureSubject, blank_event, blank_facts, mentions, without_terms
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
    nobody = kept | {"original_filename": "erased", "end_user": None, "metadata": {}}
    assert blank_event(kept | {"original_filename": "a.txt", "end_user": "u", "metadata": {"a": 1}}) == nobody


def test_facts_keep_measured_numbers_and_lose_texts() -> None:
    facts = {
        "filename": "anna.pdf",
        "extension": "anna schmidt",
        "size_bytes": 7,
        "examined": {"detail": "anna", "ms": 1.5, "report": {"detail": "a", "measures": {"pages": 2, "title": "Anna"}}},
        "scanned": {"outcome": "clean", "detail": "anna", "member": "anna.exe"},
    }
    assert blank_facts(facts) == {
        "filename": "erased",
        "extension": "",
        "size_bytes": 7,
        "examined": {"detail": "", "ms": 1.5, "report": {"detail": "", "blank_detail": "", "measures": {"pages": 2}}},
        "scanned": {"outcome": "clean", "detail": "", "member": ""},
    }
    assert blank_facts({"filename": "a.pdf", "extension": "pdf"}) == {"filename": "erased", "extension": "pdf"}
