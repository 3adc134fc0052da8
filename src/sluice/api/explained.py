"""The pages `/docs/reasons` and `/docs/errors`, which reports and problem details link to: each code with its meaning.

Plain HTML from the catalogues, without scripts, styles or links. `docs/reasons.md` and `docs/errors.md` say more.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from html import escape

from sluice.errors import FileRejected, LimitExceeded, SluiceError, catalogue
from sluice.messages import DEFAULT_LOCALE, render
from sluice.uploads.reasons import LIMIT_REASONS, WORDS, Reason


@cache
def reasons_page() -> str:
    """Return the page of reason codes."""
    sections = (_section(reason.value, _about_reason(reason)) for reason in Reason)
    return _page("Reason codes", "Why an upload is rejected: exactly one of these codes is in the answer.", sections)


@cache
def errors_page() -> str:
    """Return the page of errors."""
    every: tuple[type[SluiceError], ...] = (*catalogue(), SluiceError)
    sections = (_section(error.code, _about_error(error)) for error in every)
    return _page("Errors", "The code of a failure is in its header Sluice-Error-Code.", sections)


def _about_reason(reason: Reason) -> Mapping[str, str]:
    words = WORDS[reason]
    return {
        "Meaning": words.developer,
        "Message": words.message,
        "Sentence for the sender": render(f"{reason.value}.plain", {}, DEFAULT_LOCALE),
        "Advice": words.advice.replace("_", " "),
        "The same bytes may pass later": "yes" if words.retryable else "no",
        "Status": str((LimitExceeded if reason in LIMIT_REASONS else FileRejected).status),
    }


def _about_error(error: type[SluiceError]) -> Mapping[str, str]:
    meaning = "The service failed." if error is SluiceError else " ".join((error.__doc__ or "").split())
    return {"Meaning": meaning.replace("`", ""), "Message": error.message, "Status": str(error.status)}


def _section(code: str, about: Mapping[str, str]) -> str:
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>\n" for name, text in about.items())
    return f'<h2 id="{escape(code)}">{escape(code)}</h2>\n<dl>\n{lines}</dl>\n'


def _page(title: str, introduction: str, sections: Iterable[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n<p>{escape(introduction)}</p>\n"
        f"{''.join(sections)}</body>\n</html>\n"
    )
