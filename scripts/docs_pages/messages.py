"""`docs/messages.md`: every sentence for the sender in every language. They are declared in `sluice.messages`."""

from collections.abc import Mapping
from typing import Any, Final

from docs_pages.markdown import made_from, page, table
from sluice.messages import DEFAULT_LOCALE, LOCALES, PARAMETERS, ParameterType, catalogue_of, render
from sluice.messages.patterns import names_in, parse

# Values for the examples, by parameter.
VALUES: Final[Mapping[str, Any]] = {
    "size": 22_020_096,
    "max_size": 10_485_760,
    "min_size": 31_457_280,
    "free_size": 4_404_019,
    "count": 42,
    "max_count": 20,
    "width": 1200,
    "min_width": 1600,
    "max_width": 1000,
    "height": 900,
    "min_height": 1200,
    "max_height": 800,
    "window": 60,
    "duration": 3725,
    "max_duration": 600,
    "wait": 300,
    "extension": "exe",
    "allowed": ["pdf", "jpg", "png"],
    "expected": "PDF",
    "found": "ZIP archive",
    "formats": ["PDF", "picture"],
    "sentence": "This is no invoice.",
    "name": "Invoice number",
}

_MEANINGS: Final[Mapping[ParameterType, str]] = {
    ParameterType.BYTES: (
        "An integer: bytes. Shown in KB, MB, GB or TB of 1,024, with as many digits (at most two, else in bytes) as "
        "tell the sizes of a sentence apart. A parameter that begins with `max_` or `free_` is rounded down, one that "
        "begins with `min_` up"
    ),
    ParameterType.COUNT: "An integer. Chooses the plural form where the sentence has one",
    ParameterType.SECONDS: "Seconds, as hours, minutes and seconds. What was measured is rounded up, a limit down",
    ParameterType.WAIT: "Seconds from now, as a relative time with its preposition (`in 5 minutes`), rounded up",
    ParameterType.EXTENSION: "Of a file name, without its dot. Shown in capitals. Comes from the sender: escape it",
    ParameterType.NAME: "The name that a context gave to what it searches in texts",
    ParameterType.SENTENCE: "A sentence of an external check, in its own language",
    ParameterType.EXTENSIONS: "A list of extensions, of which any one will do: joined with the language's `or`",
    ParameterType.FORMAT: "The English name of a kind of file; `formats` translates those that differ by language",
    ParameterType.FORMATS: "A list of such names, of which any one will do: joined with the language's `or`",
}

_INTRO: Final = """
# The sender's sentences

What the person who sent a file sees: what was found, what is allowed, and what to do next. There are 16 languages.
The language is found by the lookup of RFC 4647 in the `Accept-Language` header of the request; it is English if no
other suits. A sentence names no threat, no path, no threshold of a heuristic and nothing of other files.

Applications can show the sentence as it is, or put it into words of their own by its key and its parameters.

## Catalogues

`GET /api/v1/messages` lists the locales, `GET /api/v1/messages/{locale}` returns a catalogue. Neither needs a
credential. The response has an `ETag` and may be kept for an hour. The files are in `server/src/sluice/messages`.

| Field | Content |
| --- | --- |
| `messages` | sentences by key, in [ICU MessageFormat](https://unicode-org.github.io/icu/userguide/format_parse/messages/) |
| `page` | the words of the [upload page](uploads.md#let-people-upload-without-an-application) and of `<sluice-upload>`, in the same syntax |
| `parameters` | the type of each parameter, by its name. A name means the same in every sentence |
| `formats` | names of kinds of file in this language, by their English names. Those not listed are the same everywhere |
| `units` | sizes and times by unit, with the parameter `count` |

A key is `<reason code or outcome>.<case>`. Every reason code and every outcome has the case `plain`, without
parameters: use it where a key is not known. Keys and cases may be added at any time.

Of ICU MessageFormat the sentences use two forms, `{name}` and `{name, plural, one {# page} other {# pages}}` with the
CLDR categories of the language; there is no quoting. Any library for the format reads them. The parameters of a report are raw values, so that an application formats them for its
reader, in a browser with `Intl.NumberFormat`, `Intl.RelativeTimeFormat` and `Intl.ListFormat`:
"""

_RULES: Final = """
## To change a sentence

Change `server/src/sluice/messages/<locale>.json`, then run `make docs` and read the difference of this page. A new key goes
into every catalogue at the same place. Tests refuse a catalogue with other keys, parameters or plural forms than it should
have, a familiar form of address, jargon, typewriter quotes and fixed numbers. Do not inflect a parameter: put it where
every value fits, behind a colon if need be.

## All sentences

With example values for the parameters.
"""


def messages_page() -> str:
    """Return the page."""
    kinds = [
        (f"`{kind.value}`", ", ".join(f"`{name}`" for name, one in PARAMETERS.items() if one is kind), meaning)
        for kind, meaning in _MEANINGS.items()
    ]
    sections = [block for key in catalogue_of(DEFAULT_LOCALE).messages for block in _section(key)]
    head = made_from("server/src/sluice/messages")
    return page(head, _INTRO, table(("Type", "Parameters", "What it is"), kinds), _RULES, *sections)


def _section(key: str) -> tuple[str, ...]:
    names = names_in(parse(catalogue_of(DEFAULT_LOCALE).messages[key]))
    params = {name: VALUES[name] for name in PARAMETERS if name in names}
    rows = [(f"`{locale}`", render(key, params, locale)) for locale in LOCALES]
    shown = ", ".join(f"`{name}`" for name in params)
    heading, sentences = f"### {key}", table(("Locale", "Sentence"), rows)
    return (heading, f"Parameters: {shown}.", sentences) if params else (heading, sentences)
