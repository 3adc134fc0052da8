"""The sentences for the person who sent a file, by language: which sentence, in which language, in what words.

The catalogues are the JSON files beside this one; `docs/messages.md` describes their format. Which sentence an upload
gets is decided in `uploads.sentences`.
"""

from sluice.messages.catalogue import (
    PARAMETERS,
    Catalogue,
    Param,
    ParameterType,
    Sentence,
    catalogue_of,
    plain_key,
)
from sluice.messages.locales import DEFAULT_LOCALE, LOCALES, direction_of, negotiate
from sluice.messages.rendering import render, render_page, safe_text

__all__ = [
    "DEFAULT_LOCALE",
    "LOCALES",
    "PARAMETERS",
    "Catalogue",
    "Param",
    "ParameterType",
    "Sentence",
    "catalogue_of",
    "direction_of",
    "negotiate",
    "plain_key",
    "render",
    "render_page",
    "safe_text",
]
