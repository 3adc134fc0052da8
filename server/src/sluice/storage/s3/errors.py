"""Errors of obstore as sentences that a person can act on.

No sentence repeats foreign text: it may hold parts of credentials.
"""

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from obstore.exceptions import AlreadyExistsError, BaseError

from sluice.storage.protocol import StoreError, StoreFull, StoreUnavailable

# All that obstore raises: its own errors, FileNotFoundError for 404, ValueError for a key, OSError of a source.
FOREIGN: Final = (BaseError, OSError, ValueError)
# The proxy of all hosts that must not be called: nothing can listen on port 0, so the request is refused at once.
NOWHERE: Final = "http://127.0.0.1:0"

_CODES: Final = {
    "AccessDenied": "The credentials may not {doing}.",
    "AccountProblem": "There is a problem with the store's account.",
    "AuthorizationHeaderMalformed": "The bucket is in another region than the one given.",
    "ExpiredToken": "The credentials have expired.",
    "IllegalLocationConstraintException": "The bucket is in another region than the one given.",
    "InvalidAccessKeyId": "The store does not know this access key id.",
    "NoSuchBucket": "There is no bucket of this name.",
    "PermanentRedirect": "The bucket is in another region than the one given.",
    "RequestTimeTooSkewed": "The clock of this machine differs too much from the store's clock.",
    "SignatureDoesNotMatch": "The secret access key does not fit the access key id.",
    "SlowDown": "The store asks for fewer requests.",
}
_FULL_CODES: Final = frozenset({"QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"})
_STATUSES: Final[dict[int, str]] = {
    HTTPStatus.MOVED_PERMANENTLY: _CODES["PermanentRedirect"],
    HTTPStatus.UNAUTHORIZED: "The store does not accept the credentials.",
    HTTPStatus.FORBIDDEN: "The credentials may not {doing}.",
    HTTPStatus.BAD_GATEWAY: "The store cannot be reached.",
}
_NOT_S3: Final = "The store's response is not one that S3 gives."
_BROKEN: Final = "The connection to the store broke."
_TIMED_OUT: Final = "The store did not respond in time."
# Words in the HTTP client's errors, the more specific ones first.
_CLIENT_ERRORS: Final = (
    (NOWHERE.removeprefix("http://"), "The store sends the request on to another host, which is not followed."),
    ("BareRedirect", _CODES["PermanentRedirect"]),
    ("dns error", "The host name of the store is not known."),
    ("ertificate", "The store's TLS certificate is not trusted."),
    ("kind: Timeout", _TIMED_OUT),
    ("TimedOut", _TIMED_OUT),
    ("kind: Connect,", "The store cannot be reached."),  # with the comma: `ConnectionReset` did reach the store
    ("HttpError", _BROKEN),
)
_STATUS: Final = re.compile(r"\bstatus: (\d{3})\b")
_CODE: Final = re.compile(r"<Code>([A-Za-z0-9.]{1,64})</Code>")


@dataclass(frozen=True, slots=True)
class S3Failure:
    """A foreign error: HTTP status and S3's error code if there was a response, else the fate of the request.

    `key_taken`: there is an object under the key already.
    """

    status: int | None
    code: str
    key_taken: bool
    client_error: str

    @property
    def connection_broke(self) -> bool:
        """Whether the connection was lost while the request or the response was in transit."""
        return self.status is None and self.client_error == _BROKEN

    @property
    def answer(self) -> str:
        """The status and the error code of the store's response, empty if there was none."""
        return "" if self.status is None else f"{self.status} {self.code}".rstrip()

    @property
    def may_have_succeeded(self) -> bool:
        """Whether the store may have carried out the request: the response was lost, or a retry met the first try."""
        if self.status is None or self.key_taken:
            return self.key_taken or self.client_error in {_BROKEN, _TIMED_OUT, _NOT_S3}
        return self.status >= HTTPStatus.INTERNAL_SERVER_ERROR

    @property
    def is_outage(self) -> bool:
        """Whether the store as a whole failed, and not this request only."""
        if self.status is None:
            return self.client_error != _NOT_S3
        return self.status >= HTTPStatus.INTERNAL_SERVER_ERROR and self.status != HTTPStatus.NOT_IMPLEMENTED

    def sentence(self, doing: str) -> str:
        """Return the failure as one sentence; `doing` completes “The credentials may not …”."""
        if self.code in _CODES:
            return _CODES[self.code].format(doing=doing)
        if self.status is None:
            return self.client_error
        if self.status in _STATUSES:
            return _STATUSES[self.status].format(doing=doing)
        return f"The store responded with {self.answer}."


def parse_failure(error: BaseException) -> S3Failure:
    """Return what the error says. obstore has status and code nowhere else than in its text."""
    if isinstance(error, TimeoutError):  # of the client for small objects, which has no text
        return S3Failure(status=None, code="", key_taken=False, client_error=_TIMED_OUT)
    # Only the text after `inner:` (the last try) counts if there is one: before it stands the key, which may hold any
    # words.
    detail = str(error).partition("Debug source:")[2]
    inner = detail.partition("inner:")[2] or detail
    status, code = _STATUS.search(inner), _CODE.search(inner)
    return S3Failure(
        status=int(status[1]) if status else None,
        code=code[1] if code else "",
        key_taken=isinstance(error, AlreadyExistsError),
        client_error=next((sentence for word, sentence in _CLIENT_ERRORS if word in inner), _NOT_S3),
    )


def to_store_error(error: BaseException, doing: str) -> StoreError:
    """Return the `StoreError` for a foreign error; `doing` completes “The credentials may not …”."""
    failure = parse_failure(error)
    if failure.code in _FULL_CODES or failure.status == HTTPStatus.INSUFFICIENT_STORAGE:
        translated: StoreError = StoreFull("The store has no room left.")
    elif failure.key_taken:
        translated = StoreError("There is an object under this key already.")
    else:
        translated = StoreUnavailable(failure.sentence(doing))
    translated.answer = failure.answer
    return translated


def safe_cause(error: BaseException) -> BaseException | None:
    """Return the error to chain as a cause, or None if it quotes the store: S3 echoes key ids and signed strings."""
    return None if parse_failure(error).status else error
