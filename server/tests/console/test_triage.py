"""Reviewed rejections, and changes of a context."""

import re

import pytest

from tests.api.responses import page as listed
from tests.console.users import User, signed_in
from tests.service import ApiClient


@pytest.fixture
def context(client: ApiClient) -> str:
    return client.create_context(allowed_extensions=["pdf"])


def refused(client: ApiClient, name: str, context: str) -> None:
    assert client.upload(name, b"MZ" + name.encode(), context=context).status_code == 400


def groups_of(page: str) -> list[str]:
    return re.findall(r'name="group" value="([^"]+)"', page)


@pytest.mark.engine
def test_reviewed_group_is_open_again_after_the_next_rejection(client: ApiClient, admin: User, context: str) -> None:
    refused(client, "one.exe", context)
    (group,) = groups_of(admin.get("/rejections").text)
    assert admin.post("/rejections", group=group, state="reviewed").status_code == 303
    page = admin.get("/rejections").text
    assert groups_of(page) == []
    assert "Every group was reviewed" in page
    reviewed = admin.get("/rejections?state=reviewed").text
    assert "Reviewed by <bdi>Ada</bdi>" in reviewed
    assert len(groups_of(reviewed)) == 1
    refused(client, "two.EXE", context)
    page = admin.get("/rejections").text
    assert len(groups_of(page)) == 1
    for text in ("New since it was reviewed by <bdi>Ada</bdi>", "two.EXE", "1 of 1 groups, 2 rejections"):
        assert text in page
    (entry,) = listed(client.get("/audit", action="rejections.reviewed"))[0]
    assert (entry["via"], entry["target"]) == ("console", group.partition(" ")[2])


def test_rejection_that_came_after_the_page_is_not_reviewed(client: ApiClient, admin: User, context: str) -> None:
    refused(client, "one.exe", context)
    (group,) = groups_of(admin.get("/rejections").text)
    refused(client, "two.exe", context)
    assert admin.post("/rejections", group=group, state="reviewed").status_code == 303
    assert len(groups_of(admin.get("/rejections").text)) == 1


def test_only_a_listed_group_is_muted_and_stays_so_until_it_is_opened(
    client: ApiClient, admin: User, context: str
) -> None:
    refused(client, "one.exe", context)
    (group,) = groups_of(admin.get("/rejections").text)
    unlisted: list[dict[str, str]] = [{}, {"group": "x rep_y"}, {"group": "0" * 64}, {"state": "gone"}]
    for fields in unlisted:
        expected = 422 if "state" in fields else 303  # with what to do, on the same page
        assert admin.post("/rejections", **{"state": "reviewed"} | fields).status_code == expected
        assert groups_of(admin.get("/rejections").text) == [group]
    assert admin.post("/rejections", group=group, state="muted").status_code == 303
    refused(client, "two.exe", context)
    assert groups_of(admin.get("/rejections").text) == []
    (muted,) = groups_of(admin.get("/rejections?state=muted").text)
    assert admin.post("/rejections", group=muted, state="open").status_code == 303
    assert len(groups_of(admin.get("/rejections").text)) == 1
    newest = [entry["action"] for entry in listed(client.get("/audit"))[0][:2]]
    assert newest == ["rejections.reopened", "rejections.muted"]


@pytest.mark.engine
def test_groups_differ_by_extension_and_uploader(client: ApiClient, admin: User) -> None:
    context, other = (client.create_context(allowed_extensions=["pdf"]) for _ in range(2))
    for name in ("a.exe", "b.tar.EXE. ", "c", ".hidden", "d.zip"):
        refused(client, name, context)
    refused(client, "a.exe", other)
    page = admin.get("/rejections").text
    assert "4 of 4 groups, 6 rejections" in page
    assert "1 of 1 groups, 1 rejections" in admin.get(f"/rejections?context={other}").text
    assert "4 of 4 groups" in admin.get("/rejections?reason=extension_not_allowed").text
    assert "Nothing matches" in admin.get("/rejections?reason=virus_detected").text


def test_group_is_marked_by_nobody_of_another_tenant_and_no_reader(client: ApiClient, admin: User) -> None:
    theirs = client.other_tenant_client()
    refused(theirs, "one.exe", theirs.create_context(allowed_extensions=["pdf"]))
    with signed_in(theirs) as other, signed_in(theirs, "metadata") as reader:
        (group,) = groups_of(other.get("/rejections").text)
        answer = admin.post("/rejections", group=group, state="muted")
        assert "Nothing was marked: tick the groups first." in admin.follow(answer)
        assert len(groups_of(other.get("/rejections").text)) == 1
        page = reader.get("/rejections").text
        assert "Extension not allowed" in page
        assert groups_of(page) == []


def test_change_of_a_context_is_shown_with_old_and_new_values_of_its_fields(client: ApiClient, admin: User) -> None:
    key = client.create_context(allowed_extensions=["pdf", "txt"], max_file_size_mb=10)
    rate = {"upload_rate_limit": {"max_uploads": 5, "window_seconds": 60}}
    checks = {"check_modes": {"malware": "quarantine"}, "policies": {"encrypted": {"mode": "report"}}}
    change = {"allowed_extensions": ["pdf", "png"], "max_file_size_mb": 20, "description": "<b>new</b>"}
    client.patch(f"/contexts/{key}", change | rate | checks)
    page = admin.get(f"/contexts/{key}").text
    assert re.findall(r"<dt>([^<]+)</dt><dd>(?:<del>([^<]*)</del>)?(?:<ins>([^<]*)</ins>)?</dd>", page) == [
        ("Description", "", "&lt;b&gt;new&lt;/b&gt;"),
        ("Allowed extensions", "txt", "png"),
        ("Largest file in MB", "10", "20"),
        ("Rate limit", "", "5 uploads within 1 min"),
        ("Malware", "Reject", "Quarantine"),
        ("Encrypted", "", "Report only"),
    ]
    key = client.create_context(max_file_size_mb=10)
    client.patch(f"/contexts/{key}", {"max_file_size_mb": 10})
    admin.post(f"/contexts/{key}/hold", reason="case 7")
    admin.post(f"/contexts/{key}/unhold")
    page = admin.get(f"/contexts/{key}").text
    actions = re.findall(r"<strong>(Unheld|Held|Changed|Created)</strong>", page)
    assert actions == ["Unheld", "Held", "Changed", "Created"]
    assert "<del>" not in page
    assert "case 7" in page
