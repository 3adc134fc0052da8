"""Bodies of the upload token endpoints."""

import json
import re
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field

from sluice.api.schemas.contexts import Extension, PageSentence
from sluice.api.schemas.envelope import PLAIN, Metadata, RequestBody, ResponseBody, expecting, is_none
from sluice.upload_tokens.service import IssuedToken, TokenDraft
from sluice.upload_tokens.upload_token import Method, TokenStatus, TokenUpload, UploadToken

_METADATA_BYTES: Final = 4096
_ORIGIN: Final = re.compile(r"(https?)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?", re.ASCII)
_OWN_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_OWN_PORTS: Final = {"http": ":80", "https": ":443"}


def _url(text: str) -> str:
    # The origin is also part of a Content-Security-Policy: only plain letters are accepted, unlike in a URL.
    try:
        parts = urlsplit(text)
        usable = _ORIGIN.fullmatch(f"{parts.scheme}://{parts.netloc.lower()}") is not None
        usable &= parts.scheme == "https" or parts.hostname in _OWN_MACHINE
    except ValueError:
        usable = False
    if not usable or not text.isascii() or re.search(r"[\s\\]", text):
        raise ValueError("expected an absolute URL of https, or of http on localhost, without user and password")
    return text


_SMALL: Final = expecting(
    f"at most {_METADATA_BYTES} bytes of JSON", lambda value: len(json.dumps(value).encode()) <= _METADATA_BYTES
)
_AS_SENT: Final = expecting(
    "an origin as browsers send it, such as 'https://app.example.com'",
    lambda text: (found := _ORIGIN.fullmatch(text)) is not None and found[3] != _OWN_PORTS[found[1]],
)
Origin = Annotated[str, Field(max_length=255), _AS_SENT]
Redirect = Annotated[str, Field(max_length=2000, description="For plain HTML forms."), PLAIN, AfterValidator(_url)]


class CreateUploadToken(RequestBody):
    """An upload token to be created."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "context": "claims",
                    "expires_in": 900,
                    "max_files": 3,
                    "allowed_extensions": ["pdf"],
                    "end_user": "user-42",
                    "metadata": {"claim": "C-7"},
                    "page_sentence": "Please send us the documents for claim C-7.",
                }
            ]
        }
    )

    context: Annotated[str, Field(min_length=1, max_length=100, description="The context_key.")]
    expires_in: Annotated[int, Field(ge=60, le=86_400, description="Seconds.")] = 900
    max_files: Annotated[int, Field(ge=1, le=100, description="How many files can be stored with the token.")] = 1
    max_file_size_bytes: (
        Annotated[int, Field(ge=1, description="At most what the context allows; null: as the context.")] | None
    ) = None
    allowed_extensions: Annotated[
        list[Extension], Field(max_length=500, description="Some of the context's; empty: as the context.")
    ] = Field(default_factory=list)
    allowed_origins: Annotated[
        list[Origin], Field(max_length=20, description="The origins whose pages may use the token; empty: none.")
    ] = Field(default_factory=list)
    methods: Annotated[
        list[Method],
        Field(min_length=1, max_length=2, description="How files may be sent: as a form, or resumable."),
    ] = Field(default_factory=lambda: list(get_args(Method)))
    end_user: (
        Annotated[str, Field(min_length=1, max_length=255, description="The files' `uploaded_by_name`."), PLAIN] | None
    ) = None
    metadata: Annotated[Metadata, Field(description="Added to that of each file; wins over it."), _SMALL] | None = None
    redirect_ok: Redirect | None = None
    redirect_error: Redirect | None = None
    page_sentence: PageSentence | None = Field(
        None, description="What is asked for, above the form of the upload page; null: the sentence of the context."
    )

    def draft(self) -> TokenDraft:
        """Return the token with its defaults filled in."""
        return TokenDraft(
            context_key=self.context,
            expires_in=self.expires_in,
            max_files=self.max_files,
            max_file_size_bytes=self.max_file_size_bytes,
            allowed_extensions=tuple(self.allowed_extensions),
            allowed_origins=tuple(dict.fromkeys(self.allowed_origins)),
            methods=tuple(dict.fromkeys(self.methods)),
            end_user=self.end_user,
            metadata=self.metadata or {},
            redirect_ok=self.redirect_ok,
            redirect_error=self.redirect_error,
            page_sentence=self.page_sentence,
        )


class UploadTokenCreated(ResponseBody):
    """A new upload token. `token` is shown here and never again."""

    token_id: str
    token: str
    upload_url: str = Field(description="Where files are sent with the token, as `POST /api/v1/files/upload` has it.")
    tus_url: str = Field(description="Where resumable uploads are created with the token, by the protocol tus.")
    form_url: str = Field(description="A page for people without an application, and where plain HTML forms are sent.")
    expires_at: datetime
    max_files: int
    files_stored: int
    status: TokenStatus

    @classmethod
    def of(cls, issued: IssuedToken, *, upload_url: str, tus_url: str, form_url: str) -> Self:
        """Return the response that shows the token."""
        token = issued.token
        return cls(
            token_id=token.token_id,
            token=issued.text,
            upload_url=upload_url,
            tus_url=tus_url,
            form_url=form_url,
            expires_at=token.expires_at,
            max_files=token.max_files,
            files_stored=0,
            status="active",
        )


class UploadTokenItem(ResponseBody):
    """An upload token in a list."""

    token_id: str
    token_prefix: str
    context: str
    status: TokenStatus = Field(
        description="`spent`: all files are stored, or too many uploads were tried. Only `active` ones upload."
    )
    expires_at: datetime
    max_files: int
    files_stored: int = Field(description="Files that are stored, and those that are being stored.")
    attempts: int = Field(description="Uploads that began, whatever their outcome; at most 5 × `max_files` + 5.")
    end_user: str | None
    created_by: str
    created_at: datetime

    @classmethod
    def of(cls, token: UploadToken, now: datetime) -> Self:
        """Return a token as it is at `now`."""
        return cls(**_shown(token, now))


class TokenFile(ResponseBody):
    """The outcome of one upload with a token."""

    file_id: str | None = Field(description="Null unless the file was stored.")
    report_id: str
    outcome: str
    created_at: datetime


class UploadTokenOut(UploadTokenItem):
    """A whole upload token, without its secret."""

    max_file_size_bytes: int | None
    allowed_extensions: list[str]
    allowed_origins: list[str]
    methods: list[Method]
    metadata: Metadata
    redirect_ok: str | None
    redirect_error: str | None
    page_sentence: str | None = Field(
        None, exclude_if=is_none, description="What the upload page says above its form. Left out if it is null."
    )
    files: list[TokenFile]

    @classmethod
    def with_files(cls, token: UploadToken, now: datetime, uploads: list[TokenUpload]) -> Self:
        """Return a token as it is at `now`, and the outcomes of its uploads."""
        names = ("max_file_size_bytes", "allowed_extensions", "allowed_origins", "methods", "metadata")
        rest = {name: getattr(token, name) for name in (*names, "redirect_ok", "redirect_error", "page_sentence")}
        files = [TokenFile.model_validate(upload) for upload in uploads]
        return cls.model_validate({**_shown(token, now), **rest, "files": files})


class UploadTokenRevoked(ResponseBody):
    """An upload token was revoked, for ever."""

    token_id: str
    status: Literal["revoked"] = "revoked"


def _shown(token: UploadToken, now: datetime) -> dict[str, Any]:
    names = ("token_id", "token_prefix", "expires_at", "max_files", "attempts", "end_user", "created_by", "created_at")
    return {name: getattr(token, name) for name in names} | {
        "context": token.context_key,
        "status": token.status_at(now),
        "files_stored": token.files_claimed,
    }
