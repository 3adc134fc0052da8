"""The upload page in HTML: the accepted files, a form, and the outcome of each file that was sent with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from sluice.api.pages.assets import ELEMENT, SCRIPT, STYLE, asset
from sluice.api.pages.colors import color_address
from sluice.contexts.branding import LOGO_PREFIX, Branding
from sluice.messages import direction_of, render_page, safe_text

if TYPE_CHECKING:
    from jinja2 import Template

PageState = Literal["active", "spent", "expired", "revoked", "unknown", "unavailable"]
_EXTENSIONS_MAX: Final = 50  # above this number, none is listed
_NAME_MAX: Final = 120
NO_BRANDING: Final = Branding()


@dataclass(frozen=True, slots=True)
class FileResult:
    """The outcome of one file that was sent with the form. `file_id` is None unless it was stored."""

    name: str
    sentence: str
    file_id: str | None
    report_id: str | None
    reason: str | None
    status: int


@dataclass(frozen=True, slots=True)
class Offer:
    """The remaining limits of a token. `extensions` is empty if all are accepted.

    With `redirects`, to where the response to the form may lead, the page stays a plain form: a page whose script sends
    the files is never left.
    """

    extensions: tuple[str, ...]
    max_bytes: int
    files_left: int
    seconds_left: float
    takes_tus: bool
    redirects: tuple[str, ...]


def upload_page(
    locale: str,
    state: PageState,
    *,
    token: str = "",
    offer: Offer | None = None,
    branding: Branding = NO_BRANDING,
    results: Sequence[FileResult] = (),
    problem: str | None = None,
) -> str:
    """Return the page. `problem` is the key of what is wrong with the form as a whole."""
    shown = [
        (result.file_id is not None, safe_text(result.name, _NAME_MAX), result.sentence, result.report_id)
        for result in results
    ]
    has_script = offer is not None and not offer.redirects
    return _template().render(
        locale=locale,
        direction=direction_of(locale),
        state=state,
        word=lambda key: render_page(key, {}, locale),
        token=token,
        offer=offer,
        facts=[] if offer is None else _facts(offer, locale),
        results=shown,
        problem=problem,
        branding=branding,
        logo=None if branding.logo is None else LOGO_PREFIX + branding.logo,
        styles=[_address(STYLE)] + ([] if branding.color is None else [color_address(branding.color)]),
        scripts=[_address(ELEMENT), _address(SCRIPT)] if has_script else [],
    )


def policy(offer: Offer | None = None) -> str:
    """Return the Content-Security-Policy of the page.

    `form-action` names where the response to the form may lead: browsers apply it to redirects too.
    """
    targets = {"{0.scheme}://{0.netloc}".format(urlsplit(url)) for url in (offer.redirects if offer else ())}
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        f"form-action {' '.join([repr('self'), *sorted(targets)])}; frame-ancestors 'none'; base-uri 'none'"
    )


def _facts(offer: Offer, locale: str) -> list[str]:
    """Return what the sender should know beforehand, a sentence each."""
    values: list[tuple[str, dict[str, Any]]] = []
    if 0 < len(offer.extensions) <= _EXTENSIONS_MAX:
        values.append(("accepted", {"allowed": offer.extensions}))
    values.append(("size", {"max_size": offer.max_bytes}))
    values.append(("left", {"count": offer.files_left}))
    values.append(("closes", {"wait": offer.seconds_left}))
    return [render_page(key, params, locale) for key, params in values]


def _address(name: str) -> str:
    found = asset(name)
    if found is None:
        raise RuntimeError(f"{name} is not in the package")
    return f"../static/{name}?v={found.version}"


@cache
def _template() -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415  (uploads by applications need none)

    environment = Environment(
        loader=PackageLoader("sluice.api.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("upload_page.html")
