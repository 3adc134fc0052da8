"""What the text of a document contains, and how alike it is to examples: asked by the policies text and document_kind.

The text stays in the child. What comes back are names of what was searched, counts, codes of languages and an age, or
a score and the numbers of words that several examples have.
"""

from collections.abc import Sequence
from datetime import date
from typing import Final

from sluice.contexts import Context
from sluice.contexts.policies import Text
from sluice.errors import ServiceUnavailable
from sluice.observe.log import log
from sluice.observe.stages import staged
from sluice.uploads.values import KindFact, TextFact
from sluice_inspect.document_kinds import SCORE_MOST, WORDS_LEAST, DocumentKind
from sluice_inspect.sandbox import Sandbox
from sluice_inspect.sandbox.kinds import compare
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.text import NoText, TextUnavailable, ask_text

_WORDS_SHOWN: Final = 5


@staged("text")
async def read_text(
    sealed: Sealed, filename: str, policy: Text, today: date, *, sandbox: Sandbox, tenant_id: str
) -> TextFact:
    """Return what a policy asks about the text of a file. Raise `ServiceUnavailable` if there is no worker."""
    try:
        answer = await ask_text(
            sandbox, sealed, policy.question(today), filename=filename, tenant_id=tenant_id, ocr=policy.ocr
        )
    except TextUnavailable as fault:
        log.warning("check_unavailable", tenant_id=tenant_id, why=str(fault))
        raise ServiceUnavailable("file checker") from fault
    if isinstance(answer, NoText):
        return TextFact(answer.why)
    return TextFact(
        found=tuple(each.name for number, each in enumerate(policy.named) if number in answer.found),
        words=answer.words,
        languages=answer.languages,
        age_days=None if answer.newest is None else max(0, (today - answer.newest).days),
        identifiers=answer.identifiers,
        is_cut=answer.is_cut,
        ocr_pages=answer.ocr_pages,
    )


@staged("kind")
async def compare_with_kind(sealed: Sealed, filename: str, context: Context, *, sandbox: Sandbox) -> KindFact:
    """Return how alike a file is to the examples of its context. Raise `ServiceUnavailable` if there is no worker."""
    kind, tenant_id = context.document_kind, context.tenant_id
    if kind is None or not kind.is_ready:
        return KindFact("few" if kind is None else kind.state)
    try:
        found = await compare(sandbox, sealed, kind, context.context_id, filename=filename, tenant_id=tenant_id)
    except TextUnavailable as fault:
        log.warning("check_unavailable", tenant_id=tenant_id, why=str(fault))
        raise ServiceUnavailable("file checker") from fault
    if isinstance(found, NoText):
        return KindFact(kind.state, kind.digest, found.why)
    if found.words < WORDS_LEAST:
        return KindFact(kind.state, kind.digest, words=found.words)
    return KindFact(
        kind.state,
        kind.digest,
        words=found.words,
        similarity=min(100, int(100 * found.score / (SCORE_MOST * kind.base))),
        shares=_shown(kind, found.shared),
        lacks=_shown(kind, found.lacking),
    )


def _shown(kind: DocumentKind, numbers: Sequence[int]) -> tuple[str, ...]:
    """Return the first few of these words of a kind that may be shown."""
    terms = (kind.terms[number] for number in numbers)
    return tuple(term.word for term in terms if term.word is not None and kind.shows(term))[:_WORDS_SHOWN]
