"""External checks: what counts as an answer, what happens without one, and who gets the bytes behind a link."""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from sluice.access import Principal, Scope
from sluice.api.app import make_app, set_state
from sluice.api.routes.metrics import MetricsDesk, MetricsReaders
from sluice.contexts.external_checks import ExternalCheck, ExternalCheckDraft, secret_binding
from sluice.contexts.policies import Mode
from sluice.contexts.service import Draft, ExternalCheckSecrets
from sluice.db.migrate import upgrade
from sluice.errors import FileRejected, Invalid, NotFound, ServiceUnavailable, TooManyRequests
from sluice.hash_lists.service import EntryDraft
from sluice.kit.keyring_file import add_key, retire_keys
from sluice.kit.read_through_cache import Cached
from sluice.settings import Settings
from sluice.uploads.content_links import ContentLinks, LinkBroken
from sluice.uploads.external_checks import ExternalChecks
from sluice.uploads.reasons import Reason
from sluice.uploads.replay import Unknown, Verdict, judge_again
from sluice.uploads.report import VerdictReport
from sluice.uploads.rules import judge, lacks_answer
from sluice.uploads.slots import UploadSlots
from sluice.uploads.upload import Purpose, Upload
from sluice.uploads.values import ExternalFact, ExternalRule, Facts, Rules, Stored
from sluice.wiring.assembly import Assembled, assembled
from sluice_inspect.sandbox.sealed import Sealed
from tests.cli.zygotes import ForkedZygote
from tests.events.receiver import RESET, Received, Receiver, running_receiver
from tests.operator_action import operator_action
from tests.rows import each_row
from tests.uploads.test_snapshot import CONTEXT
from tests.worker.environment import KEYRING

ALLOWED = ("127.0.0.1", "localhost")
SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
TEXT = b"a line of text\n"
QUESTION = {"report_id": "rep_1", "name": "a.txt"}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running_receiver() as running:
        yield running


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[Sealed]:
    path = tmp_path / "sealed"
    path.write_bytes(bytes(range(256)) * 4096)
    with path.open("rb") as file:
        yield Sealed(file.fileno(), 256 * 4096, bytes(32))


def check_at(url: str, **fields: Any) -> ExternalCheck:
    sealed = KEYRING.seal(SECRET, bound_to=secret_binding("ten_1", "ctx_1", "policy"))
    known = {"mode": Mode.ENFORCE, "if_unavailable": "refuse", "timeout_seconds": 5, "secret_sealed": sealed}
    return ExternalCheck("policy", url, **{**known, **fields})


async def asked(url: str, sealed: Sealed, **fields: Any) -> ExternalFact:
    """Return what one check said."""
    checks = ExternalChecks(ContentLinks("http://127.0.0.1"), KEYRING, ALLOWED)
    context = replace(CONTEXT, external_checks=(check_at(url, **fields),))
    (fact,) = await checks.ask(context, QUESTION, sealed)
    return fact


def answer(verdict: Any, **more: Any) -> bytes:
    return json.dumps({"verdict": verdict, **more}).encode()


@each_row(
    ("response", "why"),
    [
        ((200, {}, b""), "its answer is not valid JSON"),
        ((200, {}, b"{"), "its answer is not valid JSON"),
        ((200, {}, answer("accept") * 2), "its answer is not valid JSON"),
        ((200, {}, b'{"verdict": "reject", "verdict": "accept"}'), "its answer is not valid JSON"),
        ((200, {}, b'["accept"]'), "its answer is not a JSON object"),
        ((200, {}, b"[" * 100_000), "a response of more than 64 KiB"),
        ((200, {}, b"{}"), "its verdict is none of accept, reject and quarantine"),
        ((200, {}, answer("Accept")), "its verdict is none of accept, reject and quarantine"),
        ((200, {}, answer(["accept"])), "its verdict is none of accept, reject and quarantine"),
        ((200, {}, answer("off")), "its verdict is none of accept, reject and quarantine"),
        ((200, {}, answer("accept", sentence=["no text"])), "its sentence is not a text"),
        ((200, {}, answer("accept", code=1)), "its code is not a text"),
        ((200, {}, answer("accept", details=[1])), "its details are not a JSON object"),
        ((200, {}, answer("accept", details={"a": "é" * 2100})), "its details are longer than 4096 bytes"),
        ((200, {}, b" " * 5_000_000 + answer("accept")), "a response of more than 64 KiB"),
        ((200, {"Content-Length": "1000"}, answer("accept")), "no response within 1 s"),
        ((302, {"Location": "/accepts"}, answer("accept")), "it answered with the status 302"),
        ((500, {}, answer("accept")), "it answered with the status 500"),
        ((RESET, {}, b""), "the connection was lost"),
    ],
)
async def test_anything_but_one_json_object_with_a_known_verdict_is_no_answer(
    receiver: Receiver, sealed: Sealed, response: tuple[int, dict[str, str], bytes], why: str
) -> None:
    receiver.respond = lambda _request: response
    before = len(receiver.got)
    fact = await asked(receiver.url, sealed, timeout_seconds=1)
    assert (fact.verdict, fact.why) == (None, why)
    assert len(receiver.got) == before + 1


async def test_a_question_is_signed_with_both_secrets_during_the_day_after_a_rotation(
    receiver: Receiver, sealed: Sealed
) -> None:
    receiver.respond_with(200, answer("accept"))
    old = "whsec_b2xkLXNlY3JldC1vbGQtc2VjcmV0LW9sZC1zZWNyZXQ="
    binding = secret_binding("ten_1", "ctx_1", "policy")
    until = CONTEXT.created_at.replace(year=2999)
    fields = {"old_secret_sealed": KEYRING.seal(old, bound_to=binding), "old_secret_until": until}
    assert (await asked(receiver.url, sealed, **fields)).verdict == "accept"
    (got,) = receiver.got
    for secret in (SECRET, old):
        assert Webhook(secret).verify(got.body, got.headers)["check"] == "policy"


async def test_a_question_that_is_asked_again_has_another_id(receiver: Receiver, sealed: Sealed) -> None:
    receiver.respond_with(200, answer("accept"))
    for _ in range(2):
        await asked(receiver.url, sealed)
    first, second = (got.headers["webhook-id"] for got in receiver.got)
    assert first != second


async def test_a_sentence_of_a_check_is_cut_and_cleaned(receiver: Receiver, sealed: Sealed) -> None:
    receiver.respond_with(200, answer("reject", sentence="no\u202e \n<b>" + "x" * 400, details={"a": "\0"}))
    fact = await asked(receiver.url, sealed)
    assert fact.sentence == "no <b>" + "x" * 293 + "…"
    assert fact.details == {"a": "\ufffd"}


async def test_private_addresses_are_never_asked_also_of_a_name_that_leads_to_one_since_it_was_added(
    receiver: Receiver, sealed: Sealed
) -> None:
    async def resolve(_host: str) -> list[str]:
        return ["127.0.0.1"]

    checks = ExternalChecks(ContentLinks("http://127.0.0.1"), KEYRING, (), resolve=resolve)
    for host in ("127.0.0.1", "check.example.test"):
        check = check_at(f"https://{host}:{receiver.port}/")
        (fact,) = await checks.ask(replace(CONTEXT, external_checks=(check,)), QUESTION, sealed)
        assert fact.why == "this host leads to an address that the operator does not allow"
    assert receiver.got == []


async def test_a_check_without_answers_is_not_asked_for_a_while_and_then_once(
    receiver: Receiver, sealed: Sealed
) -> None:
    now = [0.0]
    checks = ExternalChecks(ContentLinks("http://127.0.0.1"), KEYRING, ALLOWED, monotonic=lambda: now[0])
    context = replace(CONTEXT, external_checks=(check_at(receiver.url),))
    receiver.respond_with(500)
    for _ in range(7):
        await checks.ask(context, QUESTION, sealed)
    assert len(receiver.got) == 5
    now[0] = 31.0
    await asyncio.gather(*[checks.ask(context, QUESTION, sealed) for _ in range(3)])
    assert len(receiver.got) == 6
    now[0] = 62.0
    receiver.respond_with(200, answer("accept"))
    for number in (7, 8):
        ((fact,),) = [await checks.ask(context, QUESTION, sealed)]
        assert (fact.verdict, len(receiver.got)) == ("accept", number)


async def test_link_is_served_by_two_processes_in_ranges_and_only_while_its_question_lives(
    tmp_path: Path, sealed: Sealed
) -> None:
    first, second = (ContentLinks("http://sluice.test", tmp_path, number) for number in range(2))
    content = bytes(range(256)) * 4096

    async def read(links: ContentLinks, token: str, start: int, length: int) -> bytes:
        async with links.open(token) as opened:
            assert (opened.info.tenant_id, opened.info.size) == ("ten_1", len(content))
            return b"".join([piece async for piece in opened.read(start, length)])

    async with first.serving(), second.serving():
        with first.opened(sealed, "ten_1") as url:
            token = url.rpartition("/")[2]
            for links in (first, second):
                assert await read(links, token, 0, len(content)) == content
                assert await read(links, token, 300_000, 300_000) == content[300_000:600_000]
        for links in (first, second):
            for dead in (token, "1-none", "2-none", "none", "0-a\nb"):
                with pytest.raises(NotFound):
                    await read(links, dead, 0, 1)


async def test_a_reader_that_stalls_keeps_no_bytes_after_the_question_has_ended(tmp_path: Path, sealed: Sealed) -> None:
    first, second = (ContentLinks("http://sluice.test", tmp_path, number) for number in range(2))
    async with first.serving(), second.serving(), AsyncExitStack() as stack:
        stalled = []
        with first.opened(sealed, "ten_1") as url:
            for links in (first, second):
                opened = await stack.enter_async_context(links.open(url.rpartition("/")[2]))
                stalled.append(opened.read(0, sealed.size))
                await anext(stalled[-1])
        async with asyncio.timeout(10):
            while _descriptors_of(tmp_path / "sealed") != [sealed.fd]:  # noqa: ASYNC110  (a thread may be reading a piece)
                await asyncio.sleep(0)
        for pieces in stalled:
            with pytest.raises(LinkBroken):
                [piece async for piece in pieces]


async def test_a_link_that_is_read_too_often_at_once_is_refused_as_that_by_every_process(
    tmp_path: Path, sealed: Sealed
) -> None:
    first, second = (ContentLinks("http://sluice.test", tmp_path, number) for number in range(2))
    async with first.serving(), second.serving(), AsyncExitStack() as stack:
        url = stack.enter_context(first.opened(sealed, "ten_1"))
        token = url.rpartition("/")[2]
        for links in (first, second) * 2:
            await stack.enter_async_context(links.open(token))
        for links in (first, second):
            with pytest.raises(TooManyRequests):
                await stack.enter_async_context(links.open(token))


def _descriptors_of(path: Path) -> list[int]:
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that lists them
            if link.readlink() == path:
                found.append(int(link.name))
    return found


def rules_with(**fields: Any) -> Rules:
    known = {"name": "policy", "mode": Mode.ENFORCE, "if_unavailable": "refuse", "address": "a"}
    rule = ExternalRule(**{**known, **fields})
    return replace(Rules.of(CONTEXT), reject_blank=False, reject_corrupt=False, external_checks=(rule,))


def facts_with(verdict: Any) -> Facts:
    return Facts("a.txt", "txt", 10, "0" * 64, quota_used_bytes=0, external=(ExternalFact("policy", verdict, 1.0),))


@each_row(
    ("verdict", "mode", "if_unavailable", "found"),
    [
        ("accept", Mode.ENFORCE, "refuse", None),
        ("reject", Mode.ENFORCE, "refuse", (Reason.REJECTED_BY_CHECK, Mode.ENFORCE)),
        ("reject", Mode.QUARANTINE, "refuse", (Reason.REJECTED_BY_CHECK, Mode.QUARANTINE)),
        ("reject", Mode.REPORT, "refuse", (Reason.REJECTED_BY_CHECK, Mode.REPORT)),
        ("quarantine", Mode.ENFORCE, "refuse", (Reason.REJECTED_BY_CHECK, Mode.QUARANTINE)),
        ("quarantine", Mode.REPORT, "refuse", (Reason.REJECTED_BY_CHECK, Mode.REPORT)),
        (None, Mode.ENFORCE, "refuse", None),
        (None, Mode.ENFORCE, "quarantine", (Reason.CHECK_UNANSWERED, Mode.QUARANTINE)),
        (None, Mode.ENFORCE, "accept", (Reason.CHECK_UNANSWERED, Mode.REPORT)),
        (None, Mode.REPORT, "refuse", (Reason.CHECK_UNANSWERED, Mode.REPORT)),
        (None, Mode.REPORT, "quarantine", (Reason.CHECK_UNANSWERED, Mode.REPORT)),
    ],
)
def test_answers_are_judged_by_the_mode_of_the_check_and_a_missing_one_never_rejects(
    verdict: str | None, mode: Mode, if_unavailable: str, found: tuple[Reason, Mode] | None
) -> None:
    judged = judge(facts_with(verdict), rules_with(mode=mode, if_unavailable=if_unavailable))
    assert [(each.reason, each.mode) for each in judged.failures] == ([] if found is None else [found])
    assert all(each.check == "external.policy" for each in judged.failures)
    assert lacks_answer(judged.facts, rules_with(mode=mode, if_unavailable=if_unavailable)) == (
        verdict is None and found is None
    )


@each_row(
    ("verdict", "changes", "expected"),
    [
        ("reject", {"mode": Mode.REPORT}, Verdict("accepted", None)),
        ("reject", {"mode": Mode.QUARANTINE}, Verdict("quarantined", Reason.REJECTED_BY_CHECK)),
        ("reject", {"address": "b"}, Unknown.NOT_ASKED),
        ("reject", {"name": "other"}, Unknown.NOT_ASKED),
        (None, {}, Unknown.NOT_ANSWERED),
        (None, {"if_unavailable": "accept"}, Verdict("accepted", None)),
    ],
)
def test_replay_judges_stored_answers_and_says_what_it_cannot_know(
    verdict: str | None, changes: Mapping[str, Any], expected: Verdict | Unknown
) -> None:
    rules = rules_with(**changes)
    before = Verdict("rejected", Reason.REJECTED_BY_CHECK)
    earlier = rules_with()
    assert Facts.from_json(json.loads(json.dumps(facts_with(verdict).to_json()))) == facts_with(verdict)
    assert Rules.from_json(json.loads(json.dumps(earlier.to_json()))) == earlier
    assert judge_again(facts_with(verdict), before, earlier, rules) == expected


# Through the door of an upload


@dataclass
class Gate:
    """A service in this process, with a tenant."""

    made: Assembled
    tenant_id: str
    data_dir: Path
    secrets: dict[str, str] = field(default_factory=dict)

    async def context(self, *checks: ExternalCheckDraft, **more: Any) -> str:
        key = f"papers_{len(self.secrets)}"
        draft = Draft(key, "Papers", scan_for_viruses=False, external_checks=checks, **more)
        context = await self.made.services.contexts.create(operator_action(self.tenant_id), draft)
        self.secrets[key] = context.external_checks[0].secret or "" if checks else ""
        return key

    @asynccontextmanager
    async def upload(self, context: str, purpose: Purpose) -> AsyncIterator[Upload]:
        who = Principal(self.tenant_id, "user", "user", frozenset({Scope.UPLOAD}), "jwt")
        caller = Cached(who, time.monotonic())

        async def read_caller(_since: float) -> Cached[Principal]:
            return caller

        one = self.made.services.uploads.begin(caller, read_caller, began=caller.read_at, purpose=purpose)
        try:
            await one.name_context(context)
            await one.start_file("a.txt")
            await one.write(TEXT)
            one.end_file()
            yield one
        finally:
            one.close()

    async def store(self, context: str) -> Stored:
        async with self.upload(context, Purpose()) as one:
            return await one.finish(await one.seal())

    async def validate(self, context: str) -> VerdictReport:
        async with self.upload(context, Purpose(stores=False, all_checks=True)) as one:
            return await one.validate(await one.seal())

    async def report(self, report_id: str) -> VerdictReport:
        return await self.made.services.reports.get(self.tenant_id, report_id)


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    folder = tmp_path / "data"
    folder.mkdir()
    settings = Settings.model_validate(
        {"data_dir": folder, "scanner": "builtin", "sandbox_workers": 1, "webhook_hosts": "127.0.0.1"}
    )
    async with assembled(settings, ForkedZygote().launched()) as made:
        await upgrade(made.engines.database)
        yield Gate(made, (await made.services.tenants.create("one", "unlimited")).tenant_id, folder)


async def test_file_that_is_denied_while_it_is_checked_is_not_stored(gate: Gate, receiver: Receiver) -> None:
    lists, loop = gate.made.services.hash_lists, asyncio.get_running_loop()
    by = operator_action(gate.tenant_id)
    await lists.add(by, [EntryDraft(bytes(32))])

    def deny(_request: Received) -> tuple[int, dict[str, str], bytes]:
        adding = lists.add(by, [EntryDraft(hashlib.sha256(TEXT).digest())])
        asyncio.run_coroutine_threadsafe(adding, loop).result(30)
        return 200, {}, answer("accept")

    receiver.respond = deny
    with pytest.raises(FileRejected) as refused:
        await gate.store(await gate.context(draft_at(receiver.url)))
    assert refused.value.errors == ("denied_file",)


def draft_at(url: str, name: str = "policy", **fields: Any) -> ExternalCheckDraft:
    return ExternalCheckDraft(name=name, url=url, **fields)


def report_of(fault: FileRejected | ServiceUnavailable) -> VerdictReport:
    assert isinstance(fault.report, VerdictReport)
    return fault.report


async def test_a_check_reads_the_bytes_of_its_question_and_its_sentence_reaches_the_sender(
    gate: Gate, receiver: Receiver
) -> None:
    app, loop = make_app(), asyncio.get_running_loop()
    set_state(app, gate.made.services, None, gate.made.healths, MetricsDesk(MetricsReaders(None), ()))  # type: ignore[arg-type]
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://sluice.test")
    read: list[httpx.Response] = []
    written: list[Path] = []

    def fetch(url: str, **headers: str) -> httpx.Response:
        path = url.partition("/api")[1] + url.partition("/api")[2]
        return asyncio.run_coroutine_threadsafe(client.get(path, headers=headers), loop).result(30)

    def reject(request: Received) -> tuple[int, dict[str, str], bytes]:
        url = request.event["content"]["url"]
        written.extend(path for path in (gate.data_dir / "objects").rglob("*") if path.is_file())
        read.extend([fetch(url), fetch(url, Range="bytes=2-5"), fetch(url, Range="bytes=99-"), fetch(f"{url}x")])
        said = answer("reject", sentence="No invoices here.", code="invoice", details={"model": "secret"})
        return 200, {}, said

    receiver.respond = reject
    context = await gate.context(draft_at(receiver.url))
    with pytest.raises(FileRejected) as refused:
        await gate.store(context)
    (got,) = receiver.got
    question = Webhook(gate.secrets[context]).verify(got.body, got.headers)
    assert [response.status_code for response in read] == [200, 206, 416, 404]
    assert (read[0].content, read[1].content) == (TEXT, TEXT[2:6])
    gone = await client.get(httpx.URL(question["content"]["url"]).raw_path.decode())
    assert gone.status_code == 404
    report = report_of(refused.value)
    assert (question["report_id"], question["size"], question["type"]) == (report.report_id, len(TEXT), "text/plain")
    assert refused.value.errors == ("rejected_by_check",)
    assert written == []  # before the verdict
    stored = await gate.report(report.report_id)
    (fact,) = stored.facts.external
    assert (fact.sentence, fact.code, fact.details) == ("No invoices here.", "invoice", {"model": "secret"})
    assert {check.name: check.outcome for check in stored.checks}["external.policy"] == "fail"
    await client.aclose()


async def test_no_file_is_stored_while_a_check_that_refuses_is_away(gate: Gate, receiver: Receiver) -> None:
    receiver.respond_with(500)
    context = await gate.context(draft_at(receiver.url), draft_at(receiver.url, "other", if_unavailable="accept"))
    for _ in range(6):  # the breaker opens on the way
        with pytest.raises(ServiceUnavailable) as fault:
            await gate.store(context)
        assert fault.value.retry_after
    with pytest.raises(ServiceUnavailable):
        await gate.validate(context)
    report = await gate.report(report_of(fault.value).report_id)
    outcomes = {check.name: check.outcome for check in report.checks}
    assert (report.outcome, outcomes["external.policy"]) == ("undecided", "error")


@each_row(("if_unavailable", "outcome"), [("accept", "accepted"), ("quarantine", "quarantined")])
async def test_a_file_without_an_answer_is_stored_as_its_context_says_and_its_report_says_why(
    gate: Gate, receiver: Receiver, if_unavailable: str, outcome: str
) -> None:
    receiver.respond_with(500)
    stored = await gate.store(await gate.context(draft_at(receiver.url, if_unavailable=if_unavailable)))
    report = await gate.report(stored.report_id)
    (fact,) = report.facts.external
    check = next(check for check in report.checks if check.name == "external.policy")
    assert (stored.outcome, check.outcome, fact.why) == (outcome, "error", "it answered with the status 500")


@each_row(("if_unavailable", "outcome"), [("accept", "accepted"), ("quarantine", "quarantined"), ("refuse", None)])
async def test_a_file_about_which_no_question_is_free_in_time_is_one_without_an_answer(
    gate: Gate, receiver: Receiver, if_unavailable: str, outcome: str | None
) -> None:
    context = await gate.context(draft_at(receiver.url, if_unavailable=if_unavailable))
    slots = UploadSlots(64, wait_seconds=0.01)
    services = replace(gate.made.services, uploads=replace(gate.made.services.uploads, slots=slots))
    full = replace(gate, made=replace(gate.made, services=services))
    async with AsyncExitStack() as held:
        for _ in range(16):
            await held.enter_async_context(slots.hold_question(gate.tenant_id))
        if outcome is None:
            with pytest.raises(ServiceUnavailable):
                await full.store(context)
        else:
            stored = await full.store(context)
            (fact,) = (await gate.report(stored.report_id)).facts.external
            assert (stored.outcome, fact.why) == (outcome, "it was not asked: too many questions are under way")
    assert receiver.got == []


async def test_an_upload_that_is_cancelled_cancels_its_question(gate: Gate, receiver: Receiver) -> None:
    receiver.hang()
    context = await gate.context(draft_at(receiver.url, timeout_seconds=60))
    upload = asyncio.create_task(gate.store(context))
    (got,) = await asyncio.to_thread(receiver.wait_for, 1)
    upload.cancel()
    await asyncio.wait([upload])
    token = got.event["content"]["url"].rpartition("/")[2]
    with pytest.raises(NotFound):
        async with gate.made.services.content_links.open(token):
            pass


async def test_a_file_that_is_rejected_already_gets_no_question(gate: Gate, receiver: Receiver) -> None:
    draft = Draft("pdfs", "PDFs", allowed_extensions=("pdf",), external_checks=(draft_at(receiver.url),))
    await gate.made.services.contexts.create(operator_action(gate.tenant_id), draft)
    with pytest.raises(FileRejected):
        await gate.store("pdfs")
    assert receiver.got == []


async def test_a_check_keeps_its_secret_by_its_name_and_none_may_name_a_private_address(
    gate: Gate, receiver: Receiver
) -> None:
    context, contexts, by = (
        await gate.context(draft_at(receiver.url)),
        gate.made.services.contexts,
        operator_action(gate.tenant_id),
    )
    changed = await contexts.change(
        by, context, {"external_checks": (draft_at(f"{receiver.url}&new"), draft_at(receiver.url, "other"))}
    )
    first, second = changed.external_checks
    before = (await contexts.get(gate.tenant_id, context)).external_checks
    assert (first.secret, second.secret is None) == (None, False)
    rotated = await contexts.rotate_check_secret(by, context, "policy")
    assert rotated.old_secret_sealed == before[0].secret_sealed == first.secret_sealed
    with pytest.raises(Invalid, match="external_checks: the URL of policy"):
        await contexts.change(by, context, {"external_checks": (draft_at("https://10.0.0.1/"),)})


async def test_secrets_are_sealed_again_with_a_new_key_and_sign_as_before(gate: Gate, receiver: Receiver) -> None:
    receiver.respond_with(200, answer("accept"))
    context = await gate.context(draft_at(receiver.url))
    by = operator_action(gate.tenant_id)
    await gate.made.services.contexts.rotate_check_secret(by, context, "policy")
    path = gate.data_dir / "keys" / "buckets.json"
    secrets = ExternalCheckSecrets(gate.made.engines.database, add_key(path))
    assert (await secrets.count_old(), await secrets.seal_again(), await secrets.count_old()) == (1, 1, 0)
    retire_keys(path)
    await gate.store(context)
    Webhook(gate.secrets[context]).verify(receiver.got[0].body, receiver.got[0].headers)
