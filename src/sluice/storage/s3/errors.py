"""What an S3 answers, in a sentence that a person can act on. No sentence repeats foreign text: it may hold parts of credentials."""

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from obstore.exceptions import AlreadyExistsError, BaseError

from sluice.engines.storage.protocol import StoreAway, StoreFault, StoreFull

# everything that obstore raises: its own, FileNotFoundError for 404, ValueError for a key, OSError of a source
FOREIGN: Final = (BaseError, OSError, ValueError)
# nothing can listen on port 0: what is sent there is refused at once (see `s3_client`)
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
_ODD: Final = "The store's answer is not one that S3 gives."
_BROKEN: Final = "The connection to the store broke."
_TIMED_OUT: Final = "The store did not answer in time."
# words of the HTTP client's errors, the more telling first
_WORDS: Final = (
    (NOWHERE.removeprefix("http://"), "The store sends the request on to another host, which is not followed."),
    ("BareRedirect", _CODES["PermanentRedirect"]),
    ("dns error", "The host name of the store is not known."),
    ("ertificate", "The store's TLS certificate is not trusted."),
    ("kind: Timeout", _TIMED_OUT),
    ("TimedOut", _TIMED_OUT),
    ("kind: Connect,", "The store cannot be reached."),  # not `ConnectionReset`: that one was reached
    ("HttpError", _BROKEN),
)
_STATUS: Final = re.compile(r"\bstatus: (\d{3})\b")
_CODE: Final = re.compile(r"<Code>([A-Za-z0-9.]{1,64})</Code>")


@dataclass(frozen=True, slots=True)
class Answer:
    """What is left of a foreign error: the HTTP status and S3's own code where there was an answer, else what became of it.

    `taken`: the key has an object. `broken`: the connection went while the request was on its way.
    """

    status: int | None
    code: str
    taken: bool
    sentence: str

    @property
    def broken(self) -> bool:
        """Say whether the request was on its way when the connection went."""
        return self.status is None and self.sentence == _BROKEN

    @property
    def is_open(self) -> bool:
        """Say whether the request may have been carried out all the same: the answer was lost, or a repeat met the first try."""
        if self.status is None or self.taken:
            return self.taken or self.sentence in {_BROKEN, _TIMED_OUT, _ODD}
        return self.status >= HTTPStatus.INTERNAL_SERVER_ERROR


def answer_in(error: BaseException) -> Answer:
    """Read status and code out of an error of obstore, which has them in its text only.

    The text is searched after `inner:` (what the last try met) where it has that: before it stands the key, which may say anything.
    """
    detail = str(error).partition("Debug source:")[2]
    inner = detail.partition("inner:")[2] or detail
    status, code = _STATUS.search(inner), _CODE.search(inner)
    sentence = next((sentence for word, sentence in _WORDS if word in inner), _ODD)
    return Answer(int(status[1]) if status else None, code[1] if code else "", isinstance(error, AlreadyExistsError), sentence)


def fault_of(error: BaseException, doing: str) -> StoreFault:
    """Answer our error for a foreign one; `doing` completes “The credentials may not …”."""
    answer = answer_in(error)
    if answer.code in _FULL_CODES or answer.status == HTTPStatus.INSUFFICIENT_STORAGE:
        return StoreFull("The store has no room left.")
    if answer.taken:
        return StoreFault("There is an object under this key already.")
    return StoreAway(_sentence(answer).format(doing=doing))


def cause_of(error: BaseException) -> BaseException | None:
    """Answer the error as a cause to keep, or None where it quotes the store: S3 echoes the access key id and what was signed."""
    return None if answer_in(error).status else error


def _sentence(answer: Answer) -> str:
    if answer.code in _CODES:
        return _CODES[answer.code]
    if answer.status is not None:
        return _STATUSES.get(answer.status) or f"The store answered {answer.status}{f' {answer.code}' if answer.code else ''}."
    return answer.sentence
