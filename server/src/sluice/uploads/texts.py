"""What the text of a document contains: asked of the locked child by the policy `text`, which alone needs it.

The text stays in the child. What comes back are names of what was searched, counts, codes of languages and an age.
"""

from datetime import date

from sluice.contexts.policies import Text
from sluice.errors import ServiceUnavailable
from sluice.observe.log import log
from sluice.observe.stages import staged
from sluice.uploads.values import TextFact
from sluice_inspect.sandbox import Sandbox
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.text import NoText, TextUnavailable, ask_text


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
