"""External checks: URLs of the tenant that are asked about a file that nothing else rejected.

All checks of a context are asked at the same time, each once, within its own time; the question is signed as a webhook
is, and its URL judged by the same rules. A JSON object with a known verdict is an answer. Anything else is none, with
one sentence why: what then happens to the file is decided in `rules` and `upload`, never here.

What is bounded while a check is asked: no transaction is open, and no inspection is held. The upload keeps its place
among those of its tenant, its bytes, of which one tenant has a quarter of the spool at most, and one of the questions
of its tenant (`UploadSlots.hold_question`). So a slow check delays uploads of its own tenant only. A check that gave no
answer several times in a row is not asked for a while, and then by one upload at a time.
"""

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, get_args

import httpcore

from sluice.buckets.endpoints import Resolve, addresses_of
from sluice.contexts import Context
from sluice.contexts.external_checks import ExternalCheck, secret_binding
from sluice.kit.cipher import CannotOpen, Sealer
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import new_id
from sluice.kit.strict_json import NotStrictJson, read_json
from sluice.messages import safe_text
from sluice.messages.rendering import SENTENCE_MAX
from sluice.observe.log import log
from sluice.observe.metrics import EXTERNAL_ANSWERS, EXTERNAL_BREAKERS, EXTERNAL_SECONDS
from sluice.outgoing.posting import NoResponse, SignedPoster
from sluice.uploads.content_links import ContentLinks
from sluice.uploads.values import ExternalFact
from sluice_inspect.sandbox.sealed import Sealed

Verdict = Literal["accept", "reject", "quarantine"]

_FAILURES_TO_OPEN: Final = 5  # in a row
_REST_SECONDS: Final = 30.0
_MOST_BREAKERS: Final = 10_000
_ANSWER_DEPTH: Final = 8
_CODE_MAX: Final = 64
_DETAILS_MAX: Final = 4096  # bytes of JSON


class NoAnswer(Exception):
    """A check gave no answer. `str()` is one sentence, without texts of the check."""


@dataclass(slots=True)
class _Breaker:
    """The failures in a row of one check; after several, it is not asked until `rests_until`."""

    failures: int = 0
    rests_until: float = 0.0
    is_tried: bool = False

    @property
    def is_open(self) -> bool:
        return self.failures >= _FAILURES_TO_OPEN


_Key = tuple[str, str, str]  # context id, name and URL of a check


class ExternalChecks:
    """Asks the external checks of all tenants. `allowed` are the hosts that the operator listed."""

    def __init__(
        self,
        links: ContentLinks,
        sealer: Sealer,
        allowed: Collection[str],
        *,
        resolve: Resolve = addresses_of,
        clock: Clock = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._links = links
        self._sealer = sealer
        self._allowed = allowed
        self._resolve = resolve
        self._clock = clock
        self._monotonic = monotonic
        self._breakers: dict[_Key, _Breaker] = {}

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()  # 25 ms: not before there is a question

    async def ask(self, context: Context, question: Mapping[str, Any], sealed: Sealed) -> tuple[ExternalFact, ...]:
        """Ask all checks of `context` and return what each said, in their order. Never raise for a fault of a check.

        `question` is the JSON that all of them get; the name of the check and the link to the bytes are added.
        """
        with self._links.opened(sealed, context.tenant_id) as url:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._ask(context, check, {**question, "content": {"url": url}}))
                    for check in context.external_checks
                ]
        return tuple(task.result() for task in tasks)

    def not_asked(self, context: Context, why: str) -> tuple[ExternalFact, ...]:
        """Return that none of the checks of `context` gave an answer, since none was asked."""
        now = self._monotonic()
        return tuple(
            self._without_answer(context, check, why, now, outcome="not_asked") for check in context.external_checks
        )

    async def _ask(self, context: Context, check: ExternalCheck, question: Mapping[str, Any]) -> ExternalFact:
        began = self._monotonic()
        key = (context.context_id, check.name, check.url)
        breaker = self._breakers.get(key)
        if breaker is not None and breaker.is_open and (breaker.is_tried or breaker.rests_until > began):
            why = f"it was not asked: the last {breaker.failures} questions got no answer"
            return self._without_answer(context, check, why, began, outcome="not_asked")
        if breaker is not None:
            breaker.is_tried = breaker.is_open
        try:
            fact = await self._answer(context, check, question, began)
        except NoAnswer as fault:
            self._count_failure(key)
            return self._without_answer(context, check, str(fault), began, outcome="no_answer")
        finally:
            if breaker is not None:
                breaker.is_tried = False  # also if the upload is cancelled
        if self._breakers.pop(key, None) is not None:
            self._count_open()
        EXTERNAL_ANSWERS.labels(fact.verdict).inc()
        EXTERNAL_SECONDS.observe(fact.ms / 1000)
        return fact

    async def _answer(
        self, context: Context, check: ExternalCheck, question: Mapping[str, Any], began: float
    ) -> ExternalFact:
        try:
            binding = secret_binding(context.tenant_id, context.context_id, check.name)
            sealed = check.sealed_secrets(self._clock())
            secrets = [self._sealer.open(one, bound_to=binding) for one in sealed]
        except CannotOpen as fault:
            raise NoAnswer("its secret cannot be read here: the keyring lacks a key") from fault
        body = json.dumps({**question, "check": check.name}, separators=(",", ":")).encode()
        # A connection for each question: none is used again for another host behind the same address.
        poster = SignedPoster(
            check.url, secrets, self._allowed, self._tls, resolve=self._resolve, seconds=check.timeout_seconds
        )
        try:
            # An id for each question: an upload may be judged twice, and a check may refuse an id that it has seen.
            raw = await poster.post(new_id("ask"), body, _whole_body)
        except NoResponse as fault:
            raise NoAnswer(str(fault)) from fault
        except NoAnswer:
            raise
        except Exception as fault:
            log.exception("external_check_failed", context_key=context.context_key, check=check.name)
            raise NoAnswer("the question failed") from fault
        finally:
            await poster.aclose()
        return read_answer(raw, check.name, self._ms_since(began))

    def _without_answer(
        self, context: Context, check: ExternalCheck, why: str, began: float, *, outcome: str
    ) -> ExternalFact:
        log.warning(
            "external_check_unanswered",
            tenant_id=context.tenant_id,
            context_key=context.context_key,
            check=check.name,
            why=why,
        )
        EXTERNAL_ANSWERS.labels(outcome).inc()
        ms = self._ms_since(began)
        EXTERNAL_SECONDS.observe(ms / 1000)
        return ExternalFact(check.name, None, ms, why=why)

    def _count_failure(self, key: _Key) -> None:
        if key not in self._breakers and len(self._breakers) >= _MOST_BREAKERS:
            del self._breakers[next(iter(self._breakers))]
        breaker = self._breakers.setdefault(key, _Breaker())
        breaker.failures += 1
        if breaker.is_open:
            breaker.rests_until = self._monotonic() + _REST_SECONDS
        self._count_open()

    def _count_open(self) -> None:
        EXTERNAL_BREAKERS.set(sum(breaker.is_open for breaker in self._breakers.values()))

    def _ms_since(self, began: float) -> float:
        return round((self._monotonic() - began) * 1000, 1)


async def _whole_body(response: httpcore.Response) -> bytes:
    """Return the body of a response with a status of success. Raise `NoAnswer`; no redirect is followed."""
    if not 200 <= response.status < 300:  # noqa: PLR2004  (RFC 9110 section 15.3)
        raise NoAnswer(f"it answered with the status {response.status}")
    return await response.aread()


def read_answer(raw: bytes, name: str, ms: float) -> ExternalFact:
    """Return the answer of the check `name` in the body of its response. Raise `NoAnswer`."""
    try:
        answer = read_json(raw, max_depth=_ANSWER_DEPTH)
    except NotStrictJson as fault:
        raise NoAnswer("its answer is not valid JSON") from fault
    if not isinstance(answer, dict):
        raise NoAnswer("its answer is not a JSON object")
    verdict, sentence = answer.get("verdict"), answer.get("sentence") or ""
    code, details = answer.get("code"), answer.get("details") or {}
    if not isinstance(verdict, str) or verdict not in get_args(Verdict):
        raise NoAnswer("its verdict is none of accept, reject and quarantine")
    if not isinstance(sentence, str):
        raise NoAnswer("its sentence is not a text")
    if code is not None and not isinstance(code, str):
        raise NoAnswer("its code is not a text")
    if not isinstance(details, dict):
        raise NoAnswer("its details are not a JSON object")
    if len(json.dumps(details, ensure_ascii=False).encode()) > _DETAILS_MAX:
        raise NoAnswer(f"its details are longer than {_DETAILS_MAX} bytes")
    known: Verdict = next(each for each in get_args(Verdict) if each == verdict)
    return ExternalFact(
        name,
        known,
        ms,
        sentence=safe_text(sentence, SENTENCE_MAX),
        code=None if code is None else safe_text(code, _CODE_MAX),
        details=_storable(details),
    )


def _storable(value: Any) -> Any:
    """Return a JSON value whose texts have no NUL, which PostgreSQL does not store."""
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(value, dict):
        return {_storable(name): _storable(each) for name, each in value.items()}
    return [_storable(each) for each in value] if isinstance(value, list) else value


def question_about(
    *,
    report_id: str,
    context: Context,
    name: str,
    content_type: str,
    sealed: Sealed,
    flags: Sequence[str],
    facts: Mapping[str, Any],
    metadata: Mapping[str, object],
    uploader: Mapping[str, str | None],
    is_dry_run: bool,
) -> dict[str, Any]:
    """Return the question about one file, without the name of the check and the link to the bytes."""
    return {
        "report_id": report_id,
        "tenant_id": context.tenant_id,
        "context": context.context_key,
        "name": name,
        "type": content_type,
        "size": sealed.size,
        "sha256": sealed.sha256.hex(),
        "flags": list(flags),
        "facts": dict(facts),
        "metadata": dict(metadata),
        "uploader": dict(uploader),
        "dry_run": is_dry_run,
    }
