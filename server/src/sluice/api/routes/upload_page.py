"""The upload page, which the link of an upload token opens, and the target of plain HTML forms.

Both need no script. Each file of a form is an upload of its own, with its own verdict; they are judged in the order in
which they come. The token in the path is the credential.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode, urlsplit, urlunsplit

import structlog
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from sluice.access import Principal
from sluice.api.authenticate import Authenticator
from sluice.api.http1.multipart import Event, PartEnd, PartStart, boundary_of, read_parts
from sluice.api.pages.upload_page import NO_BRANDING, FileResult, Offer, PageState, policy, upload_page
from sluice.api.parameters import Services
from sluice.api.route import GuardedRoute, keep_place, read_body, require_uncompressed
from sluice.api.routes.upload import FORM_OVERHEAD_BYTES, counted
from sluice.api.schemas.reports import report_body
from sluice.contexts.branding import Branding
from sluice.db.database import DatabaseUnavailable
from sluice.errors import (
    BodyTooLarge,
    ContextInactive,
    FileRejected,
    Invalid,
    LimitExceeded,
    Malformed,
    NotFound,
    ServiceUnavailable,
    SluiceError,
    TokenSpent,
    Unauthenticated,
    UnsupportedBody,
)
from sluice.kit.read_through_cache import Cached
from sluice.messages import negotiate, render, render_page
from sluice.upload_tokens.upload_token import UploadToken
from sluice.uploads.report import VerdictReport
from sluice.uploads.upload import LARGEST_FILE_BYTES, Purpose, Upload
from sluice.uploads.values import Rules, Stored

router = APIRouter(prefix="/u", route_class=GuardedRoute, include_in_schema=False)

_FILES_OF_A_FORM: Final = 32  # as many parts as a form may have
_GONE: Final = {"expired", "revoked"}
# Not in the body of the form but in the way it comes: nothing after it can be read.
_ENDS_THE_FORM: Final = (Malformed, BodyTooLarge)


@router.api_route("/{token}", methods=["GET", "HEAD"])
async def show_upload_page(request: Request, token: str, services: Services) -> Response:
    """Show what can be sent with the token, and a form for it."""

    async def show() -> Response:
        found = await _find(request, token)
        state = found.status_at(services.upload_tokens.now())
        offer, branding = await _offer(services, found)
        return _page(request, state, token=token, offer=offer, branding=branding)

    return await _as_page(request, show)


@router.post("/{token}")
async def send_form(request: Request, token: str, services: Services) -> Response:
    """Upload the files of a form, and redirect to where the token says, or show the outcome of each.

    What is stored or rejected before the form ends too early stays so.
    """

    async def send() -> Response:
        found = await _find(request, token)
        state = found.status_at(services.upload_tokens.now())
        if state != "active":
            _, branding = await _offer(services, found)
            return _redirect(found, [], state) or _page(request, state, branding=branding)
        keep_place(request, found.tenant_id, is_guest=True)
        results, problem = await _receive(request, token, found)
        if not results and problem is None:
            problem = "none_chosen"
        redirect = _redirect(found, results, problem)
        if redirect is not None:
            return redirect
        found = await _find(request, token)
        state = found.status_at(services.upload_tokens.now())
        failed = next((result.status for result in results if result.file_id is None), 0)
        status = failed or (HTTPStatus.OK if problem is None else HTTPStatus.BAD_REQUEST)
        offer, branding = await _offer(services, found)
        return _page(
            request,
            state,
            token=token,
            offer=offer,
            branding=branding,
            results=results,
            problem=problem,
            status=status,
        )

    return await _as_page(request, send)


async def _as_page(request: Request, respond: Callable[[], Awaitable[Response]]) -> Response:
    """Return the response, or the page for the error that refused it."""
    try:
        return await respond()
    except NotFound:
        return _page(request, "unknown", status=HTTPStatus.NOT_FOUND)
    except ContextInactive:
        return _page(request, "unavailable", status=ContextInactive.status)
    except DatabaseUnavailable:
        return _page(request, "unavailable", status=ServiceUnavailable.status)
    except SluiceError as error:
        page = _page(request, "unavailable", status=error.status)
        if error.retry_after is not None:
            page.headers["Retry-After"] = str(max(1, round(error.retry_after)))
        return page


async def _find(request: Request, text: str) -> UploadToken:
    authenticator: Authenticator = request.app.state.authenticator
    token = await authenticator.find_upload_token(request, text)
    if "form" not in token.methods:
        raise NotFound
    structlog.contextvars.bind_contextvars(tenant_id=token.tenant_id)
    return token


async def _offer(services: Services, token: UploadToken) -> tuple[Offer | None, Branding]:
    """Return what can still be sent with the token, None if it is over, and who asks for it.

    Raise `ContextInactive`.
    """
    now = services.upload_tokens.now()
    context = await services.contexts.get(token.tenant_id, token.context_key)
    branding = context.branding
    if token.page_sentence is not None:
        branding = replace(branding, sentence=token.page_sentence)
    if token.status_at(now) != "active":
        return None, branding
    if context.status != "active":
        raise ContextInactive
    rules = Rules.of(context).narrowed(token.permit)
    offer = Offer(
        extensions=rules.allowed_extensions,
        max_bytes=min(rules.max_bytes, await services.contexts.accepted_bytes(context)),
        files_left=token.max_files - token.files_claimed,
        seconds_left=(token.expires_at - now).total_seconds(),
        takes_tus="tus" in token.methods,
        redirects=tuple(url for url in (token.redirect_ok, token.redirect_error) if url is not None),
    )
    return offer, branding


def _page(
    request: Request,
    state: PageState,
    *,
    token: str = "",
    offer: Offer | None = None,
    branding: Branding = NO_BRANDING,
    results: list[FileResult] | None = None,
    problem: str | None = None,
    status: int | None = None,
) -> HTMLResponse:
    locale = negotiate(request.headers.get("accept-language"))
    content = upload_page(
        locale, state, token=token, offer=offer, branding=branding, results=results or (), problem=problem
    )
    if status is None:
        status = HTTPStatus.GONE if state in _GONE else HTTPStatus.OK
    headers = {"Content-Security-Policy": policy(offer), "Content-Language": locale, "Vary": "Accept-Language"}
    return HTMLResponse(content, status_code=status, headers=headers)


def _redirect(token: UploadToken, results: list[FileResult], problem: str | None) -> Response | None:
    """Return the redirect that the tenant set for this outcome; None if it set none."""
    is_good = problem is None and all(result.file_id is not None for result in results)
    target = token.redirect_ok if is_good else token.redirect_error
    if target is None:
        return None
    named = [
        (name, value)
        for result in results
        for name, value in (("file_id", result.file_id), ("report_id", result.report_id), ("reason", result.reason))
        if value is not None
    ]
    if problem is not None:
        named.append(("reason", problem))
    parts = urlsplit(target)
    query = "&".join(part for part in (parts.query, urlencode(named)) if part)
    location = urlunsplit(parts._replace(query=query))
    return Response(status_code=HTTPStatus.SEE_OTHER, headers={"Location": location})


# The form


async def _receive(request: Request, text: str, token: UploadToken) -> tuple[list[FileResult], str | None]:
    """Upload the files of the form one after the other; return their outcomes, and the errors of the form."""
    results: list[FileResult] = []
    try:
        boundary = boundary_of(request.headers.get("content-type", ""))
        if boundary is None:
            raise UnsupportedBody("multipart/form-data")  # noqa: TRY301  (the same response as for a faulty body)
        require_uncompressed(request)
        most_bytes = min(token.max_files, _FILES_OF_A_FORM) * LARGEST_FILE_BYTES + FORM_OVERHEAD_BYTES
        events = read_parts(read_body(request, most_bytes), boundary)
        async for event in events:
            if not isinstance(event, PartStart) or event.name != "file" or not event.filename:
                continue  # other fields, and the file input that was left empty
            content = _content(events)
            result = await _upload_one(request, text, event.filename, content)
            results.append(result)
            async for _ in content:  # what was not read of a rejected file
                pass
    except (*_ENDS_THE_FORM, UnsupportedBody):
        return results, "not_read"
    return results, None


async def _content(events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
    """Yield the bytes of the part that has begun, up to its end."""
    async for event in events:
        if isinstance(event, PartEnd):
            return
        if isinstance(event, bytes):
            yield event


async def _upload_one(request: Request, text: str, filename: str, content: AsyncIterator[bytes]) -> FileResult:
    """Upload one file; return its outcome. Raise only what ends the form."""
    services: Services = request.app.state.services
    began = time.monotonic()

    async def read_caller(_since: float) -> Cached[Principal]:
        read_at = time.monotonic()
        return Cached(await services.upload_tokens.authenticate(text, "form", "again"), read_at)

    caller: Principal | None = None
    try:
        caller = await services.upload_tokens.authenticate(text, "form", "begin")
        upload = services.uploads.begin(Cached(caller, began), read_caller, began=began, purpose=Purpose())
        stored = await counted(upload, "store", lambda: _send_file(services, upload, filename, content))
    except _ENDS_THE_FORM:
        raise
    except DatabaseUnavailable:
        return _failed(request, filename, ServiceUnavailable("database"), caller)
    except SluiceError as error:
        return _failed(request, filename, error, caller)
    locale = negotiate(request.headers.get("accept-language"))
    sentence = render("accepted.plain", {}, locale)
    return FileResult(filename, sentence, stored.file_id, stored.report_id, None, HTTPStatus.OK)


async def _send_file(services: Services, upload: Upload, filename: str, content: AsyncIterator[bytes]) -> Stored:
    caller, slots = upload.snapshot.principal, services.uploads.slots
    try:
        async with slots.hold(caller.tenant_id, token_id=caller.actor_id if caller.permit else None):
            if caller.permit is not None:
                await upload.name_context(caller.permit.context_key)
            await upload.start_file(filename)
            async for chunk in content:
                await upload.write(chunk)
            file = await upload.seal()
            with slots.learning(upload.snapshot.named.context.context_id, file.sealed.size):
                return await upload.finish(file)
    except SluiceError as error:
        # As in `upload`: an invalid token takes precedence.
        if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            await upload.snapshot.confirm_caller()
        raise


def _failed(request: Request, filename: str, error: SluiceError, caller: Principal | None) -> FileResult:
    """Return the result of a file that was not stored, in the sender's language."""
    accept_language = request.headers.get("accept-language")
    locale, report_id, reason = negotiate(accept_language), None, error.code
    if isinstance(error, FileRejected | LimitExceeded):
        reason = error.errors[0]
    if isinstance(error.report, VerdictReport):
        shown = report_body(error.report, caller, accept_language)
        sentence, report_id = str(shown["message"]), error.report.report_id
    elif isinstance(error, TokenSpent | Unauthenticated):
        sentence, reason = render_page("too_many", {}, locale), "spent"
    elif isinstance(error, Invalid):
        sentence = render("filename_not_allowed.plain", {}, locale)
    else:
        sentence = render("undecided.plain", {}, locale)
    return FileResult(filename, sentence, None, report_id, reason, error.status)
