"""Examples of the documents that a context expects: add, list and remove them, and learn what they have in common.

Only features of an example are kept, its file is not (docs/decisions/0040). Each change of the examples is a change of
the rules of the context, with a new version.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sluice.audit import AuditAction
from sluice.audit.repository import add_change, append
from sluice.contexts import repository as context_rows
from sluice.db.database import Database
from sluice.errors import Invalid, NotFound, ServiceUnavailable, TooManyRequests, or_not_found
from sluice.events import outbox
from sluice.events.catalogue import ContextUpdated
from sluice.examples import repository
from sluice.examples.example import Example, ExampleDraft, ExampleSet
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import new_id
from sluice.kit.text import is_plain
from sluice.observe.log import log
from sluice_inspect.document_kinds import EXAMPLES_MOST, DocumentKind, Features, key_of
from sluice_inspect.sandbox import Sandbox
from sluice_inspect.sandbox.kinds import learn
from sluice_inspect.sandbox.text import TextUnavailable

_TRIES: Final = 5  # while others change the examples of the same context
_RETRY_SECONDS: Final = 1.0


class Examples:
    """The examples of all contexts, one tenant at a time."""

    def __init__(self, database: Database, sandbox: Sandbox, clock: Clock = utc_now) -> None:
        self._database = database
        self._sandbox = sandbox
        self._clock = clock

    async def list(self, tenant_id: str, context_key: str) -> ExampleSet:
        """Return the examples of a context; raise `NotFound`."""
        if not is_plain(context_key):
            raise NotFound
        async with self._database.reading(tenant_id) as connection:
            context = or_not_found(await context_rows.find(connection, tenant_id, context_key))
            return ExampleSet(context, await repository.load(connection, tenant_id, context.context_id))

    async def add(self, by: AuditAction, context_key: str, draft: ExampleDraft) -> tuple[Example, ExampleSet]:
        """Add an example, and return it and the examples as they are now.

        Raise `NotFound`, `Invalid` for one too many or the same file again, `ServiceUnavailable` or `TooManyRequests`.
        """
        now = self._clock()
        for _try in range(_TRIES):
            before = await self.list(by.tenant_id, context_key)
            same = next((each for each in before.examples if each.sha256 == draft.sha256), None)
            if same is not None:
                raise Invalid(f"file: the same bytes are the example {same.example_id} already")
            if len(before.examples) >= EXAMPLES_MOST:
                raise Invalid(f"file: the context has {EXAMPLES_MOST} examples already, which is the most")
            salt = before.context.context_id
            example = Example(
                new_id("exm", now),
                draft.filename,
                draft.sha256,
                draft.size_bytes,
                draft.content_type,
                now,
                Features({key_of(word, salt): count for word, count in draft.text.words.items()}, draft.text.traits),
            )
            kind = await self._learn(before, (*before.examples, example), draft.text.words)
            after = await self._save(by, before, kind, added=example)
            if after is not None:
                return example, after
        raise _busy()

    async def remove(self, by: AuditAction, context_key: str, example_id: str) -> ExampleSet:
        """Remove an example, with all that was kept of it, and return those that are left.

        Raise `NotFound`, `ServiceUnavailable` or `TooManyRequests`.
        """
        for _try in range(_TRIES):
            before = await self.list(by.tenant_id, context_key)
            left = tuple(each for each in before.examples if each.example_id != example_id)
            if len(left) == len(before.examples):
                raise NotFound
            after = await self._save(by, before, await self._learn(before, left, {}), removed=example_id)
            if after is not None:
                return after
        raise _busy()

    async def _learn(
        self, before: ExampleSet, examples: Sequence[Example], words: Mapping[str, int]
    ) -> DocumentKind | None:
        """Return what examples have in common, with the words that are known: those before, and of the new example."""
        if not examples:
            return None
        tenant_id, salt = before.context.tenant_id, before.context.context_id
        try:
            kind = await learn(self._sandbox, [each.features for each in examples], tenant_id=tenant_id)
        except TextUnavailable as fault:
            log.warning("check_unavailable", tenant_id=tenant_id, why=str(fault))
            raise ServiceUnavailable("file checker") from fault
        known = {term.key: term.word for term in before.kind.terms} | {key_of(word, salt): word for word in words}
        return replace(kind, terms=tuple(replace(term, word=known.get(term.key)) for term in kind.terms))

    async def _save(
        self,
        by: AuditAction,
        before: ExampleSet,
        kind: DocumentKind | None,
        *,
        added: Example | None = None,
        removed: str | None = None,
    ) -> ExampleSet | None:
        """Change the examples and what they have in common; None if they are not those of `before` any more."""
        tenant_id, now = by.tenant_id, self._clock()
        async with self._database.transaction(tenant_id) as connection:
            found = await context_rows.find(connection, tenant_id, before.context.context_key, to_change=True)
            context_id = or_not_found(found).context_id
            present = await repository.load(connection, tenant_id, context_id)
            if [each.example_id for each in present] != [each.example_id for each in before.examples]:
                return None
            if added is not None:
                await repository.add(connection, tenant_id, context_id, added)
            if removed is not None:
                await repository.remove(connection, tenant_id, context_id, removed)
            values = {"document_kind": None if kind is None else kind.to_json(), "updated_at": now}
            changed = await context_rows.change(connection, tenant_id, before.context.context_key, values)
            context = or_not_found(changed)
            event_id = await append(connection, by, context.context_key, now)
            after = await repository.load(connection, tenant_id, context_id)
            counts: Mapping[str, tuple[Any, Any]] = {"examples": (len(present), len(after))}
            await add_change(connection, tenant_id, event_id, context.context_key, counts)
            updated = ContextUpdated(
                context_key=context.context_key, changed=("examples",), rules_version=context.rules_version
            )
            await outbox.add(connection, tenant_id, updated, now)
        return ExampleSet(context, after)


def _busy() -> TooManyRequests:
    return TooManyRequests(errors=["The examples of this context are being changed"], retry_after=_RETRY_SECONDS)
