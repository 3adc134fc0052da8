"""Failed requests to Google as sentences that a person can act on.

No sentence repeats foreign text, except the names of permissions in `_PERMISSIONS`.
"""

import contextlib
import json
import re
import socket
import ssl
from http import HTTPStatus
from typing import Final

import httpcore

from sluice.storage.protocol import StoreError, StoreFull, StoreUnavailable

# All that the HTTP client raises for a request that the network or the other side made fail.
FOREIGN: Final = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
    TimeoutError,
    OSError,
    AttributeError,  # anyio asks for the address of a connection that uvloop has closed meanwhile
)

_PERMISSIONS: Final = re.compile(r"\bstorage\.(?:objects|multipartUploads)\.(?:create|get|delete|list|abort)\b")
_CODE: Final = re.compile(rb"<Code>([A-Za-z.]{1,64})</Code>")
NO_BUCKET: Final = "There is no bucket of this name."
_NO_HMAC_KEY: Final = "Google does not know the access ID, or its HMAC key is inactive or deleted."
_FEWER: Final = "The store asks for fewer requests."
_BILLING: Final = "The billing account of the bucket's project is disabled or missing."
_LISTED: Final = "The service account lacks the permission storage.objects.get or storage.objects.list on the bucket."
# By the `reason` of an error: cloud.google.com/storage/docs/json_api/v1/status-codes
# The XML API writes the same words with a capital letter: cloud.google.com/storage/docs/xml-api/reference-status
_REASONS: Final = {
    "accessNotConfigured": "The Cloud Storage API is disabled in the project of the service account.",
    "accountDisabled": _BILLING,
    "accountProblem": _BILLING,
    "authError": "Google does not accept the access token of the service account.",
    "cloudKmsBadKey": "The Cloud KMS key of the bucket cannot be used.",
    "cloudKmsDecryptionKeyNotFound": "The Cloud KMS key of the bucket cannot be used.",
    "cloudKmsDisabledKey": "The Cloud KMS key of the bucket is disabled.",
    "cloudKmsEncryptionKeyNotFound": "The Cloud KMS key of the bucket cannot be used.",
    "invalidAccessKeyId": _NO_HMAC_KEY,
    "invalidSecurity": _NO_HMAC_KEY,
    "noSuchBucket": NO_BUCKET,
    "objectUnderActiveHold": "An object under a hold cannot be deleted.",
    "orgPolicyConstraintFailed": "An organization policy of Google Cloud forbids the request.",
    "rateLimitExceeded": _FEWER,
    "requestTimeTooSkewed": "The clock of this machine differs too much from Google's clock.",
    "retentionPolicyNotMet": "The retention policy of the bucket does not allow the object to be deleted yet.",
    "signatureDoesNotMatch": "The secret does not fit the access ID of the HMAC key.",
    "slowDown": _FEWER,
    "usageLimits.accessNotConfigured": "The Cloud Storage API is disabled in the project of the service account.",
    "userProjectAccountProblem": _BILLING,
    "userProjectMissing": "The bucket has Requester Pays turned on, which is not supported.",
    "userRateLimitExceeded": _FEWER,
}
# Words in the message of an error whose reason is a general one such as `forbidden`, in lower case.
_WORDS: Final = (
    ("vpcservicecontrols", "VPC Service Controls of the organization forbid the request."),
    ("vpc service controls", "VPC Service Controls of the organization forbid the request."),
    ("request is prohibited by organization's policy", "VPC Service Controls of the organization forbid the request."),
    ("restrictauthtypes", "An organization policy of Google Cloud forbids HMAC keys."),
    ("requester pays", _REASONS["userProjectMissing"]),
    ("organization policy", _REASONS["orgPolicyConstraintFailed"]),
    ("violates constraint", _REASONS["orgPolicyConstraintFailed"]),
    ("billing account", _BILLING),
    ("retention policy", _REASONS["retentionPolicyNotMet"]),
)
_STATUSES: Final[dict[int, str]] = {
    HTTPStatus.UNAUTHORIZED: _REASONS["authError"],
    HTTPStatus.TOO_MANY_REQUESTS: _FEWER,
    HTTPStatus.BAD_GATEWAY: "The store cannot be reached.",
}
_BROKEN: Final = "The connection to the store broke."
_TIMED_OUT: Final = "The store did not respond in time."
_FULL_REASONS: Final = frozenset({"quotaExceeded"})
_PASSING_REASONS: Final = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "slowDown"})
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})


class RequestFailed(Exception):
    """A request without the response that was hoped for. `status` is None if there was no response.

    `reason` and `message` are foreign text. `sentence` is one without a response, or one that replaces all others.
    """

    def __init__(self, status: int | None, reason: str = "", message: str = "", sentence: str = "") -> None:
        super().__init__(sentence or status)
        self.status = status
        self.reason = reason
        self.message = message
        self._sentence = sentence

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed a moment later."""
        if self.status is None:
            return self._sentence in {_BROKEN, _TIMED_OUT, _STATUSES[HTTPStatus.BAD_GATEWAY]}
        return self.status in _PASSING or self._word in _PASSING_REASONS

    @property
    def may_have_succeeded(self) -> bool:
        """Whether the store may have carried out the request: the response was lost, or a retry met the first try."""
        if self.status is None:
            return True
        gone = {HTTPStatus.NOT_FOUND, HTTPStatus.GONE}  # of the session of an upload, which ends when it is complete
        return self.key_taken or self.status in gone or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR

    @property
    def key_taken(self) -> bool:
        """Whether there is an object under the key already."""
        return self.status == HTTPStatus.PRECONDITION_FAILED and self._word != "orgPolicyConstraintFailed"

    @property
    def is_outage(self) -> bool:
        """Whether the store as a whole failed, and not this request only."""
        return self.status is None or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR or self.is_passing

    def to_store_error(self, doing: str) -> StoreError:
        """Return the failure as one sentence; `doing` completes “The service account may not …”."""
        answer = "" if self.status is None else f"{self.status} {self._shown_reason}".rstrip()
        if self._word in _FULL_REASONS or self.status == HTTPStatus.INSUFFICIENT_STORAGE:
            translated: StoreError = StoreFull("A quota of the project is used up.")
        elif self.key_taken:
            translated = StoreError("There is an object under this key already.")
        else:
            translated = StoreUnavailable(self._sentence_for(doing, answer))
        translated.answer = answer
        return translated

    @property
    def _word(self) -> str:
        return self.reason[:1].lower() + self.reason[1:]

    @property
    def _shown_reason(self) -> str:
        return self.reason if re.fullmatch(r"[A-Za-z.]{1,64}", self.reason) else ""

    def _sentence_for(self, doing: str, answer: str) -> str:
        if self._sentence:
            return self._sentence
        if self._word in _REASONS:
            return _REASONS[self._word]
        words = self.message.lower()
        if found := next((sentence for word, sentence in _WORDS if word in words), None):
            return found
        if self.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN} and (
            missing := _PERMISSIONS.search(self.message)
        ):
            # Without the permission to list, Google does not say that an object is missing, and names this one.
            if missing[0] == "storage.objects.get":
                return _LISTED
            return f"The service account lacks the permission {missing[0]} on the bucket."
        if self.status == HTTPStatus.FORBIDDEN:
            return f"The service account may not {doing}."
        if self.status is not None and self.status in _STATUSES:
            return _STATUSES[self.status]
        if self.status is not None and HTTPStatus.MULTIPLE_CHOICES <= self.status < HTTPStatus.BAD_REQUEST:
            return "The store sends the request on to another host, which is not followed."
        if self.is_no_bucket:
            return NO_BUCKET
        return f"The store responded with {answer}."

    @property
    def is_no_bucket(self) -> bool:
        """Whether the store says that the bucket does not exist."""
        return self.status == HTTPStatus.NOT_FOUND and (
            self.reason == "NoSuchBucket" or "bucket does not exist" in self.message
        )

    @property
    def is_no_object(self) -> bool:
        """Whether the store says that the bucket exists, but not the object."""
        return self.status == HTTPStatus.NOT_FOUND and (
            self.reason == "NoSuchKey" or self.message.startswith("No such object")
        )


def no_bucket() -> RequestFailed:
    """Return the failure of a request to a bucket that is not there."""
    return RequestFailed(HTTPStatus.NOT_FOUND, "notFound", sentence=NO_BUCKET)


def failed_response(status: int, body: bytes) -> RequestFailed:
    """Return the failure that a response states. Downloads have their message as plain text."""
    reason: object = ""
    message: object = body[:2000].decode("utf-8", "replace")
    with contextlib.suppress(ValueError, KeyError, IndexError, TypeError, RecursionError):
        error = json.loads(body)["error"]
        message = error["message"]
        reason = error["errors"][0]["reason"]
    return RequestFailed(status, reason if isinstance(reason, str) else "", message if isinstance(message, str) else "")


def failed_xml_response(status: int, body: bytes) -> RequestFailed:
    """Return the failure that a response of the XML API states."""
    code = _CODE.search(body)
    return RequestFailed(status, code[1].decode() if code else "", body[:4000].decode("utf-8", "replace"))


def failed_request(error: BaseException) -> RequestFailed:
    """Return the failure of a request without a response."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in causes):
        return RequestFailed(None, sentence="The store's TLS certificate is not trusted.")
    if any(isinstance(each, socket.gaierror) for each in causes):
        return RequestFailed(None, sentence="The host name of the store is not known.")
    if isinstance(error, httpcore.ConnectTimeout | httpcore.ConnectError | httpcore.ProxyError):
        return RequestFailed(None, sentence=_STATUSES[HTTPStatus.BAD_GATEWAY])
    if isinstance(error, httpcore.TimeoutException | TimeoutError):
        return RequestFailed(None, sentence=_TIMED_OUT)
    return RequestFailed(None, sentence=_BROKEN)
