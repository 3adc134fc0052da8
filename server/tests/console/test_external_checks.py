"""The external checks of a context in the console: their form, their secrets, and why one gave no answer."""

import re

from tests.console.users import User
from tests.events.receiver import running_receiver
from tests.service import ApiClient

SECRET = r"whsec_[A-Za-z0-9+/=]{40,}"


def test_check_is_added_with_its_secret_shown_once_and_its_page_says_why_it_gives_no_answer(
    client: ApiClient, admin: User
) -> None:
    context = client.create_context()
    with running_receiver() as receiver:
        receiver.respond_with(500)
        fields = {"name_1": "policy", "url_1": receiver.url, "mode_1": "enforce", "if_unavailable_1": "accept"}
        wrong = admin.post(f"/contexts/{context}/checks", **fields, timeout_seconds_1="soon")
        assert "timeout_seconds" in wrong.text
        added = admin.post(f"/contexts/{context}/checks", **fields, timeout_seconds_1="5")
        (first,) = set(re.findall(SECRET, added.text))
        client.store(context=context)
    page = admin.get(f"/contexts/{context}").text
    assert "0 answers to 1 questions" in page
    assert "it answered with the status 500" in page
    assert re.findall(SECRET, page + admin.get(f"/contexts/{context}/checks").text) == []
    assert "Make a new secret?" in admin.post(f"/contexts/{context}/checks/rotate", name="policy").text
    rotated = admin.post(f"/contexts/{context}/checks/rotate", name="policy", sure="yes").text
    (second,) = set(re.findall(SECRET, rotated))
    assert second != first
    assert admin.post(f"/contexts/{context}/checks").status_code == 303
    assert "None: no address is asked" in admin.get(f"/contexts/{context}").text
