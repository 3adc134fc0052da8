"""The catalogues of the sender's sentences: open to everybody, kept by caches, the same for every caller."""

import pytest

from sluice.messages import LOCALES, PARAMETERS, catalogue_of
from tests.api.responses import assert_error, data
from tests.rows import each_row
from tests.service import ApiClient, Service


@pytest.fixture
def anybody(service: Service) -> ApiClient:
    return service.new_client().with_credential(None)


def test_locales_are_listed_without_a_credential(anybody: ApiClient) -> None:
    listed = data(anybody.get("/messages"))
    assert [item["locale"] for item in listed] == list(LOCALES)
    assert [item["locale"] for item in listed if item["default"]] == ["en"]
    assert {item["locale"]: item["language"] for item in listed}["ja"] == "日本語"


def test_catalogue_is_served_without_a_credential(anybody: ApiClient) -> None:
    for locale in LOCALES:
        served = data(anybody.get(f"/messages/{locale}"))
        assert served == catalogue_of(locale).to_json() | {"parameters": dict(PARAMETERS)}


def test_catalogue_may_be_kept_and_is_not_sent_again_while_it_is_the_same(anybody: ApiClient) -> None:
    first = anybody.get("/messages/de")
    assert first.headers["cache-control"] == "public, max-age=3600"
    etag = first.headers["etag"]
    for named in (etag, f'"other", {etag}', "*", etag.removeprefix("W/")):
        again = anybody.request("GET", "/messages/de", headers={"If-None-Match": named})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    for named in ('"other"', anybody.get("/messages/fr").headers["etag"]):
        assert anybody.request("GET", "/messages/de", headers={"If-None-Match": named}).status_code == 200


@each_row("locale", ["xx", "DE", "de-AT", "en.json", "%00"])
def test_unknown_locale_names_the_known_ones(anybody: ApiClient, locale: str) -> None:
    response = anybody.get(f"/messages/{locale}")
    assert_error(response, 404, "Resource not found", f"locale: expected one of {', '.join(LOCALES)}")
    assert response.headers["cache-control"] == "no-store"


def test_catalogues_can_only_be_read_and_with_any_credential(anybody: ApiClient) -> None:
    assert anybody.with_credential("sl_live_nonsense").get("/messages/en").status_code == 200
    assert anybody.get("/messages/..%2fen").status_code == 404
    response = anybody.request("POST", "/messages/en")
    assert (response.status_code, response.headers["allow"]) == (405, "GET")
