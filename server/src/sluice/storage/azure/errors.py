"""The responses of Azure as sentences that a person can act on, in the words of its portal.

No sentence repeats foreign text: it may hold parts of credentials.
"""

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

from sluice.storage.azure.credentials import Credential
from sluice.storage.protocol import StoreError, StoreFull, StoreUnavailable
from sluice.storage.transport import Response

TAKEN: Final = "There is an object under this key already."
_CLOCK: Final = "The clock of this machine differs too much from the store's clock."
_MOST_SKEW: Final = timedelta(minutes=14)  # Azure refuses requests that are 15 minutes old
# learn.microsoft.com/rest/api/storageservices: pages of the error codes of Blob, of all services, and of SAS
_CODES: Final = {
    "AccountIsDisabled": "The storage account is disabled.",
    "AccountRequiresHttps": "The storage account requires secure transfer: the endpoint must begin with https.",
    "AuthorizationFailure": "The storage account's firewall (Networking) does not allow this service's address.",
    "BlobArchived": "The object is in the access tier Archive, from which it cannot be read.",
    "BlobImmutableDueToPolicy": "The container has an immutability policy or a legal hold: objects cannot be deleted.",
    "ContainerBeingDeleted": "The container is being deleted.",
    "ContainerDisabled": "The container is disabled.",
    "ContainerNotFound": "There is no container of this name in the storage account.",
    "InsufficientAccountPermissions": "The storage account does not allow the credentials to {doing}.",
    "LeaseIdMissing": "There is a lease on the object or the container.",
    "RequestBodyTooLarge": "The object is larger than the store takes.",
    "ServerBusy": "The store asks for fewer requests.",
}
_STATUSES: Final[dict[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "The store does not accept the credentials.",
    HTTPStatus.FORBIDDEN: "The credentials may not {doing}.",
    HTTPStatus.BAD_GATEWAY: "The store cannot be reached.",
}
_FULL_CODES: Final = frozenset({"AccountCapacityExceeded", "QuotaExceeded"})
_NOT_AZURE: Final = "The store's response is not one that Azure gives."
_CODE: Final = re.compile(r"[A-Za-z0-9]{1,64}", re.ASCII)
_CODE_IN_BODY: Final = re.compile(rb"<Code>([A-Za-z0-9]{1,64})</Code>")


def code_of(response: Response) -> str:
    """Return the error code of a response, empty if it has none."""
    named = response.headers.get("x-ms-error-code", "")
    if not _CODE.fullmatch(named):
        found = _CODE_IN_BODY.search(response.body)
        named = found[1].decode() if found else ""
    if named == "AuthorizationFailure" and b"failed to authenticate" in response.body:
        return "AuthenticationFailed"  # so says Azurite; Azure gives the other to what its firewall refuses
    return named


def is_outage(response: Response) -> bool:
    """Return whether the store as a whole failed, and not this request only."""
    return response.status >= HTTPStatus.INTERNAL_SERVER_ERROR and response.status != HTTPStatus.NOT_IMPLEMENTED


def to_store_error(response: Response, doing: str, credential: Credential) -> StoreError:
    """Return the `StoreError` for a response; `doing` completes “The credentials may not …”."""
    code = code_of(response)
    if code in _FULL_CODES or response.status == HTTPStatus.INSUFFICIENT_STORAGE:
        translated: StoreError = StoreFull("The store has no room left.")
    elif code in {"BlobAlreadyExists", "UnauthorizedBlobOverwrite"}:
        translated = StoreError(TAKEN)
    else:
        translated = StoreUnavailable(_sentence(response, code, credential).replace("{doing}", doing))
    translated.answer = f"{response.status} {code}".rstrip()
    return translated


def _sentence(response: Response, code: str, credential: Credential) -> str:
    if 300 <= response.status < 400:  # noqa: PLR2004  (RFC 9110 section 15.4)
        return "The store sends the request on to another host, which is not followed."
    if response.status < 300:  # noqa: PLR2004  (as above)
        return _NOT_AZURE
    if code == "AuthenticationFailed" and _clocks_differ(response):
        return _CLOCK
    explained = credential.explain(code) or _CODES.get(code) or _STATUSES.get(response.status)
    return explained or f"The store responded with {response.status} {code}".rstrip() + "."


def _clocks_differ(response: Response) -> bool:
    try:
        theirs = parsedate_to_datetime(response.headers.get("date", ""))
        return abs(theirs - datetime.now(UTC)) > _MOST_SKEW
    except (ValueError, TypeError):
        return False
