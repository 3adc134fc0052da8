"""What the client raises.

    SluiceError
    ├── ConnectionFailed      no response arrived
    ├── UnexpectedAnswer      what answered is not Sluice, or too old or new
    └── ServiceError          an error of the service's catalogue, with its `code`
        ├── FileRejected      an upload failed a check: `reason`, `report`
        ├── Unauthenticated   401
        ├── PermissionDenied  403
        ├── NotFound          404
        ├── Conflict          409
        ├── LimitExceeded     429, after the retries
        ├── Unavailable       5xx, after the retries
        └── InvalidRequest    every other 4xx

`InvalidWebhook` and `InvalidReceipt` are `ValueError`s: they concern what others presented, not a request.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice_client.models import SenderReport


class SluiceError(Exception):
    """The base of all errors of requests. `upload_url` is set where a resumable upload can continue: see `resume`."""

    upload_url: str | None = None


class ConnectionFailed(SluiceError):
    """The service could not be reached, or its response was lost. The cause is the error of httpx."""


class UnexpectedAnswer(SluiceError):
    """The response is not one that this version of the client can read."""


class ServiceError(SluiceError):
    """An error response of the service. `code` is stable and listed in Sluice's page on errors."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        errors: Sequence[str] = (),
        report: "SenderReport | None" = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__("; ".join((message, *errors)))
        self.message = message
        self.status = status
        self.code = code
        self.errors = tuple(errors)
        self.report = report
        self.request_id = request_id
        self.retry_after = retry_after

    @property
    def reason(self) -> str:
        """The reason code of a rejected upload, or what else the service names first."""
        return self.errors[0] if self.errors else self.code


class FileRejected(ServiceError):
    """An upload failed a check, and nothing was stored. `report.message` is for the person who sent the file."""


class Unauthenticated(ServiceError):
    """The credential is missing, invalid, expired or revoked."""


class PermissionDenied(ServiceError):
    """The credential lacks a scope."""


class NotFound(ServiceError):
    """The thing does not exist, or belongs to another tenant."""


class Conflict(ServiceError):
    """The request contradicts the state of the thing: it exists already, is inactive, held, or in use."""


class LimitExceeded(ServiceError):
    """A rate, the plan or another limit is used up; `retry_after` says for how many seconds."""


class Unavailable(ServiceError):
    """The service, or a part of it such as the scanner, did not work."""


class InvalidRequest(ServiceError):
    """The service refused the request as such; `errors` names each problem."""


class InvalidWebhook(ValueError):
    """A request that was not signed with the endpoint's secret, or that is too old."""


class InvalidReceipt(ValueError):
    """A text that is no receipt signed by one of the keys."""


_BY_STATUS: dict[int, type[ServiceError]] = {
    401: Unauthenticated,
    403: PermissionDenied,
    404: NotFound,
    409: Conflict,
    429: LimitExceeded,
}


def error_class(status: int, code: str) -> type[ServiceError]:
    """Return the class of an error of the catalogue."""
    if code == "file_rejected":
        return FileRejected
    return _BY_STATUS.get(status, Unavailable if status >= 500 else InvalidRequest)  # noqa: PLR2004  (server errors)
