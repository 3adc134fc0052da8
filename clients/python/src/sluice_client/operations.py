"""The operations of the API, each once for both clients, grouped by noun.

A function below describes one operation: it returns the `Call`, or the flow, that carries it out. `@operation` and
`@listing` make it a method: of `Sluice` one that returns the result, of `AsyncSluice` one that is awaited or iterated
asynchronously. The name in them is the `operationId` of the OpenAPI document, which describes every argument.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from typing_extensions import Unpack

from sluice_client import models
from sluice_client.core import Call, Core, Flow, Progress, Source, given, segment
from sluice_client.senders import AsyncSender, BlockingSender

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", BlockingSender, AsyncSender)


class Noun(Generic[S]):
    """The base of all groups of operations."""

    def __init__(self, core: Core, sender: S) -> None:
        self.core = core
        self.sender: S = sender


class _Operation(Generic[P, T]):
    def __init__(self, operation_id: str, function: Callable[Concatenate[Any, P], Call[T] | Flow[T]]) -> None:
        self.operation_id = operation_id
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, noun: None, owner: Any) -> "_Operation[P, T]": ...
    @overload
    def __get__(self, noun: Noun[BlockingSender], owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, noun: Noun[AsyncSender], owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, noun: Any, owner: Any) -> Any:
        if noun is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            made = self.function(noun, *args, **kwargs)
            return noun.sender.run(noun.core.call(made) if isinstance(made, Call) else made)

        method.__doc__ = self.__doc__
        return method


class _Listing(Generic[P, T]):
    def __init__(self, operation_id: str, function: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self.operation_id = operation_id
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, noun: None, owner: Any) -> "_Listing[P, T]": ...
    @overload
    def __get__(self, noun: Noun[BlockingSender], owner: Any) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, noun: Noun[AsyncSender], owner: Any) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, noun: Any, owner: Any) -> Any:
        if noun is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return noun.sender.iterate(noun.core, self.function(noun, *args, **kwargs))

        method.__doc__ = self.__doc__
        return method


def operation(
    operation_id: str,
) -> Callable[[Callable[Concatenate[Any, P], Call[T] | Flow[T]]], _Operation[P, T]]:
    """Make a function an operation with one result."""
    return lambda function: _Operation(operation_id, function)


def listing(operation_id: str) -> Callable[[Callable[Concatenate[Any, P], Call[T]]], _Listing[P, T]]:
    """Make a function an operation whose result is a list, of which the caller gets an iterator over all pages."""
    return lambda function: _Listing(operation_id, function)


class Contexts(Noun[S]):
    """File contexts: the pipelines that files are uploaded into, with their rules."""

    @operation("create_context")
    def create(self, context_key: str, display_name: str, **fields: Unpack[models.NewContext]) -> Call[models.Context]:
        """Create a context."""
        body = {"context_key": context_key, "display_name": display_name, **fields}
        return Call("POST", "/contexts", models.Context, body=body)

    @listing("list_contexts")
    def list(self, *, status: str | None = None, page_size: int = 100) -> Call[models.ContextItem]:
        """Iterate over the contexts."""
        return Call("GET", "/contexts", models.ContextItem, given(status=status, page_size=page_size))

    @operation("get_context")
    def get(self, context_key: str) -> Call[models.Context]:
        """Return a context."""
        return Call("GET", f"/contexts/{segment(context_key)}", models.Context)

    @operation("update_context")
    def update(self, context_key: str, **changes: Unpack[models.ContextChanges]) -> Call[models.Context]:
        """Change fields of a context."""
        return Call("PATCH", f"/contexts/{segment(context_key)}", models.Context, body=changes)

    @operation("hold_context")
    def hold(self, context_key: str, reason: str) -> Call[models.ContextHold]:
        """Put a legal hold on a context: none of its files can be deleted."""
        return Call("PUT", f"/contexts/{segment(context_key)}/hold", models.ContextHold, body={"reason": reason})

    @operation("end_context_hold")
    def end_hold(self, context_key: str) -> Call[models.ContextHold]:
        """End the legal hold of a context."""
        return Call("DELETE", f"/contexts/{segment(context_key)}/hold", models.ContextHold)

    @operation("rotate_check_secret")
    def rotate_check_secret(self, context_key: str, check_name: str) -> Call[models.ExternalCheck]:
        """Give an external check a new secret; the old one signs too for a day."""
        path = f"/contexts/{segment(context_key)}/external-checks/{segment(check_name)}/rotate-secret"
        return Call("POST", path, models.ExternalCheck)

    @operation("list_examples")
    def examples(self, context_key: str) -> Call[models.Examples]:
        """Return the examples of what a context expects, and what they have in common."""
        return Call("GET", f"/contexts/{segment(context_key)}/examples", models.Examples)

    @operation("add_example")
    def add_example(
        self, context_key: str, source: Source, *, filename: str | None = None
    ) -> Flow[models.ExampleAdded]:
        """Add an example of what a context expects. The file is read, and not kept."""
        path = f"/contexts/{segment(context_key)}/examples"
        return self.core.send_form(path, models.ExampleAdded, source, context=None, filename=filename, metadata=None)

    @operation("remove_example")
    def remove_example(self, context_key: str, example_id: str) -> Call[models.Examples]:
        """Remove an example, and return those that are left."""
        return Call("DELETE", f"/contexts/{segment(context_key)}/examples/{segment(example_id)}", models.Examples)

    @operation("replay_change")
    def replay(
        self, context_key: str, *, since: str | None = None, **changes: Unpack[models.ContextRules]
    ) -> Call[models.Replay]:
        """Return what a change of rules would have done to earlier uploads; nothing is changed."""
        body = {"changes": changes, **given(since=since)}
        return Call("POST", f"/contexts/{segment(context_key)}/replay", models.Replay, body=body, is_repeatable=True)


class Files(Noun[S]):
    """Uploads, and stored files."""

    @operation("upload_file")
    def upload(
        self,
        source: Source,
        *,
        context: str | None = None,
        filename: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        resume: str | None = None,
        on_upload_url: Callable[[str], None] | None = None,
        progress: Progress | None = None,
    ) -> Flow[models.UploadedFile]:
        """Upload a file and return it as stored; raise `FileRejected` if it fails a check.

        Files above 8 MB go in parts, by tus, and continue by themselves after a lost connection. `on_upload_url` gets
        the URL of such an upload, and has smaller files sent in parts too; `resume` continues one, in another process
        as well. An error after which an upload can continue has the URL as `upload_url`. An upload token names its own
        context. Forms have an `Idempotency-Key` of their own unless one is given: repeating one stores no second file.
        """
        return self.core.upload(
            source,
            context=context,
            filename=filename,
            metadata=metadata,
            idempotency_key=idempotency_key,
            resume=resume,
            on_upload_url=on_upload_url,
            progress=progress,
        )

    @operation("validate_file")
    def validate(
        self, source: Source, *, context: str, filename: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> Flow[models.Validated]:
        """Judge a file without storing it. A file that would be rejected is no error: read `report.outcome`."""
        return self.core.send_form(
            "/files/validate", models.Validated, source, context=context, filename=filename, metadata=metadata
        )

    @listing("list_files")
    def list(
        self, *, sort: str | None = None, page_size: int = 100, **only: Unpack[models.FileFilter]
    ) -> Call[models.File]:
        """Iterate over stored files, the newest first."""
        conditions: dict[str, Any] = {name: value for name, value in only.items() if name != "metadata"}
        conditions |= {f"metadata.{name}": value for name, value in only.get("metadata", {}).items()}
        return Call("GET", "/files", models.File, given(sort=sort, page_size=page_size, **conditions))

    @operation("get_download_url")
    def download_url(
        self, file_id: str, *, expires_in: int | None = None, disposition: str | None = None
    ) -> Call[models.DownloadUrl]:
        """Return a link that downloads a file for some seconds, without credentials."""
        params = given(expires_in=expires_in, disposition=disposition)
        return Call("GET", f"/files/{segment(file_id)}", models.DownloadUrl, params)

    @operation("get_preview_url")
    def preview_url(
        self, file_id: str, *, size: int | None = None, expires_in: int | None = None
    ) -> Call[models.PreviewUrl]:
        """Return a link that shows a picture of a file, 200 or 1,200 pixels long, for some seconds."""
        return Call(
            "GET", f"/files/{segment(file_id)}/preview", models.PreviewUrl, given(size=size, expires_in=expires_in)
        )

    @operation("get_file_metadata")
    def metadata(self, file_id: str) -> Call[models.FileMetadata]:
        """Return what is known of a file."""
        return Call("GET", f"/files/{segment(file_id)}/metadata", models.FileMetadata)

    @operation("delete_file")
    def delete(self, file_id: str) -> Call[models.DeletedFile]:
        """Delete a file; it can be restored until it is purged."""
        return Call("DELETE", f"/files/{segment(file_id)}", models.DeletedFile)

    @operation("restore_file")
    def restore(self, file_id: str) -> Call[models.RestoredFile]:
        """Make a deleted file visible again."""
        return Call("POST", f"/files/{segment(file_id)}/restore", models.RestoredFile)

    @operation("hold_file")
    def hold(self, file_id: str, reason: str) -> Call[models.FileHold]:
        """Put a legal hold on a file: it cannot be deleted."""
        return Call("PUT", f"/files/{segment(file_id)}/hold", models.FileHold, body={"reason": reason})

    @operation("end_file_hold")
    def end_hold(self, file_id: str) -> Call[models.FileHold]:
        """End the legal hold of a file."""
        return Call("DELETE", f"/files/{segment(file_id)}/hold", models.FileHold)

    @operation("get_receipt")
    def receipt(self, file_id: str) -> Call[models.Receipt]:
        """Return a signed statement of how a file was judged: see `verify_receipt`."""
        return Call("GET", f"/files/{segment(file_id)}/receipt", models.Receipt)

    @operation("bulk_delete_files")
    def bulk_delete(
        self,
        file_ids: Sequence[str] | None = None,
        *,
        only: models.FileFilter | None = None,
        max_files: int | None = None,
    ) -> Call[models.Job]:
        """Start a job that deletes files, by ids or by a filter."""
        body = given(file_ids=file_ids, filter=only, max_files=max_files)
        return Call("POST", "/files/bulk-delete", models.Job, body=body)

    @operation("bulk_restore_files")
    def bulk_restore(
        self,
        file_ids: Sequence[str] | None = None,
        *,
        only: models.FileFilter | None = None,
        max_files: int | None = None,
    ) -> Call[models.Job]:
        """Start a job that restores deleted files, by ids or by a filter."""
        body = given(file_ids=file_ids, filter=only, max_files=max_files)
        return Call("POST", "/files/bulk-restore", models.Job, body=body)

    @operation("export_files")
    def export(
        self,
        *,
        only: models.FileFilter | None = None,
        format: str | None = None,  # noqa: A002  (its name in the API)
    ) -> Call[models.Job]:
        """Start a job that writes the metadata of files as NDJSON or CSV."""
        return Call("POST", "/files/export", models.Job, body=given(filter=only, format=format))


class Uploads(Noun[S]):
    """Resumable uploads that are not finished; `files.upload` makes and continues them."""

    @operation("get_upload")
    def get(self, upload_id: str) -> Call[models.ResumableUpload]:
        """Return a resumable upload as it is now."""
        return Call("GET", f"/uploads/{segment(upload_id)}", models.ResumableUpload)

    @operation("cancel_upload")
    def cancel(self, upload_id: str) -> Call[None]:
        """Cancel a resumable upload that is not finished."""
        headers = {"Tus-Resumable": "1.0.0"}
        return Call("DELETE", f"/uploads/{segment(upload_id)}", type(None), headers=headers)


class Reports(Noun[S]):
    """What was checked and found of each upload."""

    @listing("list_reports")
    def list(
        self,
        *,
        context: str | None = None,
        outcome: str | None = None,
        reason: str | None = None,
        uploaded_by: str | None = None,
        filename: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        language: str | None = None,
        page_size: int = 100,
    ) -> Call[models.FullReport]:
        """Iterate over reports, the newest first."""
        params = given(
            context=context,
            outcome=outcome,
            reason=reason,
            uploaded_by=uploaded_by,
            filename=filename,
            since=since,
            until=until,
            page_size=page_size,
        )
        headers = given(**{"Accept-Language": language})
        return Call("GET", "/reports", models.FullReport, params, headers=headers)

    @operation("get_report")
    def get(self, report_id: str, *, language: str | None = None) -> Call[models.FullReport]:
        """Return a report; `language` is that of its sentence, as in `Accept-Language`."""
        headers = given(**{"Accept-Language": language})
        return Call("GET", f"/reports/{segment(report_id)}", models.FullReport, headers=headers)


class Quarantine(Noun[S]):
    """Stored files that cannot be downloaded, and the decisions on them."""

    @listing("list_quarantined_files")
    def list(self, *, context: str | None = None, after: str | None = None) -> Call[models.QuarantinedFile]:
        """Iterate over the files in quarantine, the oldest first, from behind `after`."""
        params = given(context=context, after=after)
        return Call("GET", "/quarantine", models.QuarantinedFile, params, cursor="file_id")

    @operation("download_quarantined_file")
    def download(self, file_id: str) -> Call[bytes]:
        """Return a file in quarantine, as a ZIP archive with the password `infected`."""
        return Call("GET", f"/quarantine/{segment(file_id)}/download", bytes)

    @operation("preview_quarantined_file")
    def preview(self, file_id: str, *, size: int | None = None) -> Call[bytes]:
        """Return a picture of a file in quarantine, 200 or 1,200 pixels long, as a PNG."""
        return Call("GET", f"/quarantine/{segment(file_id)}/preview", bytes, given(size=size))

    @operation("release_quarantined_file")
    def release(self, file_id: str, comment: str) -> Call[models.Reviewed]:
        """Release a file: it can be downloaded."""
        body = {"comment": comment}
        return Call("POST", f"/quarantine/{segment(file_id)}/release", models.Reviewed, body=body)

    @operation("refuse_quarantined_file")
    def refuse(self, file_id: str, comment: str) -> Call[models.Reviewed]:
        """Refuse a file: it is deleted."""
        body = {"comment": comment}
        return Call("POST", f"/quarantine/{segment(file_id)}/refuse", models.Reviewed, body=body)

    @operation("rescan_quarantined_file")
    def rescan(self, file_id: str, comment: str) -> Call[models.RescanAsked]:
        """Have a file scanned again."""
        body = {"comment": comment}
        return Call("POST", f"/quarantine/{segment(file_id)}/rescan", models.RescanAsked, body=body)


class Jobs(Noun[S]):
    """Work on many files that continues after the response."""

    @listing("list_jobs")
    def list(self, *, status: str | None = None, kind: str | None = None, page_size: int = 100) -> Call[models.Job]:
        """Iterate over jobs, the newest first."""
        return Call("GET", "/jobs", models.Job, given(status=status, kind=kind, page_size=page_size))

    @operation("get_job")
    def get(self, job_id: str) -> Call[models.Job]:
        """Return how far a job is."""
        return Call("GET", f"/jobs/{segment(job_id)}", models.Job)

    @operation("get_export_url")
    def export_url(self, job_id: str, *, expires_in: int | None = None) -> Call[models.ExportDownload]:
        """Return a link that downloads what an export wrote."""
        params = given(expires_in=expires_in)
        return Call("GET", f"/jobs/{segment(job_id)}/download", models.ExportDownload, params)

    @operation("cancel_job")
    def cancel(self, job_id: str) -> Call[models.JobCancelled]:
        """Cancel a job; what it has done stays done."""
        return Call("POST", f"/jobs/{segment(job_id)}/cancel", models.JobCancelled)


class Erasures(Noun[S]):
    """Erasures of a person: all files, and the names in what is kept."""

    @operation("create_erasure")
    def create(
        self,
        *,
        uploaded_by: str | None = None,
        end_user: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Call[models.Erasure]:
        """Start to erase a person, who is named in one of three ways."""
        body = given(uploaded_by=uploaded_by, end_user=end_user, metadata=metadata)
        return Call("POST", "/erasures", models.Erasure, body=body)

    @operation("get_erasure")
    def get(self, job_id: str) -> Call[models.Erasure]:
        """Return how far an erasure is."""
        return Call("GET", f"/erasures/{segment(job_id)}", models.Erasure)

    @operation("get_erasure_receipt")
    def receipt(self, job_id: str, *, page: int = 1) -> Call[models.ErasureReceipt]:
        """Return one page of the signed list of what an erasure did: see `verify_receipt`."""
        return Call("GET", f"/erasures/{segment(job_id)}/receipt", models.ErasureReceipt, {"page": page})


class Buckets(Noun[S]):
    """Buckets of a tenant, with credentials of its own."""

    @operation("add_bucket")
    def add(
        self,
        tenant_id: str,
        *,
        name: str,
        default_bucket: str,
        base_path: str | None = None,
        set_as_default: bool | None = None,
        **settings: Unpack[models.BucketSettings],
    ) -> Call[models.Bucket]:
        """Add a bucket: one of S3, or of the `provider` in its settings."""
        common = given(name=name, default_bucket=default_bucket, base_path=base_path, set_as_default=set_as_default)
        body = common | given(**settings)
        return Call("POST", _buckets(tenant_id), models.Bucket, body=body)

    @listing("list_buckets")
    def list(self, tenant_id: str) -> Call[models.Bucket]:
        """Iterate over the buckets."""
        return Call("GET", _buckets(tenant_id), models.Bucket)

    @operation("get_bucket")
    def get(self, tenant_id: str, config_id: str) -> Call[models.Bucket]:
        """Return a bucket."""
        return Call("GET", _buckets(tenant_id, config_id), models.Bucket)

    @operation("update_bucket")
    def update(self, tenant_id: str, config_id: str, **changes: Unpack[models.BucketChanges]) -> Call[models.Bucket]:
        """Change the name or the credentials of a bucket, or whether it is active."""
        return Call("PATCH", _buckets(tenant_id, config_id), models.Bucket, body=changes)

    @operation("delete_bucket")
    def delete(self, tenant_id: str, config_id: str) -> Call[models.BucketDeleted]:
        """Forget a bucket; its objects are not touched."""
        return Call("DELETE", _buckets(tenant_id, config_id), models.BucketDeleted)

    @operation("set_default_bucket")
    def set_default(self, tenant_id: str, config_id: str) -> Call[models.Bucket]:
        """Make a bucket the default."""
        path = f"{_buckets(tenant_id, config_id)}/set-default"
        return Call("POST", path, models.Bucket, is_repeatable=True)


def _buckets(tenant_id: str, config_id: str | None = None) -> str:
    path = f"/tenants/{segment(tenant_id)}/storage-configs"
    return path if config_id is None else f"{path}/{segment(config_id)}"


class ApiKeys(Noun[S]):
    """API keys."""

    @operation("create_api_key")
    def create(
        self,
        name: str,
        scopes: Sequence[str],
        *,
        expires_in_days: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        contexts: Sequence[str] | None = None,
        allowed_networks: Sequence[str] | None = None,
        rate_per_minute: int | None = None,
        mode: str | None = None,
    ) -> Call[models.ApiKeyCreated]:
        """Create a key. Its text is in the response and never shown again."""
        body = given(
            name=name,
            scopes=scopes,
            expires_in_days=expires_in_days,
            metadata=metadata,
            contexts=contexts,
            allowed_networks=allowed_networks,
            rate_per_minute=rate_per_minute,
            mode=mode,
        )
        return Call("POST", "/api-keys", models.ApiKeyCreated, body=body)

    @listing("list_api_keys")
    def list(self, *, status: str | None = None, page_size: int = 100) -> Call[models.ApiKeyItem]:
        """Iterate over the keys."""
        return Call("GET", "/api-keys", models.ApiKeyItem, given(status=status, page_size=page_size))

    @operation("get_api_key")
    def get(self, api_key_id: str) -> Call[models.ApiKey]:
        """Return a key, without its text."""
        return Call("GET", f"/api-keys/{segment(api_key_id)}", models.ApiKey)

    @operation("update_api_key")
    def update(self, api_key_id: str, **changes: Unpack[models.ApiKeyChanges]) -> Call[models.ApiKey]:
        """Change fields of a key."""
        return Call("PATCH", f"/api-keys/{segment(api_key_id)}", models.ApiKey, body=changes)

    @operation("rotate_api_key")
    def rotate(
        self, api_key_id: str, *, overlap_seconds: int | None = None, expires_in_days: int | None = None
    ) -> Call[models.ApiKeyRotated]:
        """Give a key a new text, in the response and never shown again; the present one is good a while more."""
        body = given(overlap_seconds=overlap_seconds, expires_in_days=expires_in_days)
        return Call("POST", f"/api-keys/{segment(api_key_id)}/rotate", models.ApiKeyRotated, body=body)

    @operation("revoke_api_key")
    def revoke(self, api_key_id: str) -> Call[models.ApiKeyRevoked]:
        """Revoke a key, for ever."""
        return Call("DELETE", f"/api-keys/{segment(api_key_id)}", models.ApiKeyRevoked)


class UploadTokens(Noun[S]):
    """Credentials for pages and apps, which upload a few files into one context."""

    @operation("create_upload_token")
    def create(self, context: str, **limits: Unpack[models.UploadTokenLimits]) -> Call[models.UploadTokenCreated]:
        """Make a token. Its text is in the response and never shown again."""
        return Call("POST", "/upload-tokens", models.UploadTokenCreated, body={"context": context, **limits})

    @listing("list_upload_tokens")
    def list(self, *, page_size: int = 100) -> Call[models.UploadTokenItem]:
        """Iterate over the tokens, the newest first."""
        return Call("GET", "/upload-tokens", models.UploadTokenItem, {"page_size": page_size})

    @operation("get_upload_token")
    def get(self, token_id: str) -> Call[models.UploadToken]:
        """Return a token, and what became of each upload with it."""
        return Call("GET", f"/upload-tokens/{segment(token_id)}", models.UploadToken)

    @operation("revoke_upload_token")
    def revoke(self, token_id: str) -> Call[models.UploadTokenRevoked]:
        """Revoke a token, for ever."""
        return Call("DELETE", f"/upload-tokens/{segment(token_id)}", models.UploadTokenRevoked)


class Cors(Noun[S]):
    """The origins whose pages may call the API with the tenant's keys."""

    @operation("get_cors")
    def get(self) -> Call[models.Cors]:
        """Return the origins."""
        return Call("GET", "/cors", models.Cors)

    @operation("replace_cors")
    def replace(self, allowed_origins: Sequence[str]) -> Call[models.Cors]:
        """Replace all origins."""
        return Call("PUT", "/cors", models.Cors, body={"allowed_origins": allowed_origins})


class Events(Noun[S]):
    """What happened, in order."""

    @listing("list_events")
    def list(
        self,
        *,
        after: str | None = None,
        type: str | Sequence[str] | None = None,  # noqa: A002  (its name in the API)
        limit: int | None = None,
        wait: int | None = None,
    ) -> Call[models.Event]:
        """Iterate over all events after `after`. With `wait`, wait up to that many seconds for the first one."""
        params = given(after=after, type=type, limit=limit, wait=wait)
        return Call("GET", "/events", models.Event, params, cursor="id")


class HashLists(Noun[S]):
    """Files that are denied, or not scanned for malware, by a digest of their bytes."""

    @listing("list_hashes")
    def list(
        self,
        *,
        list: str | None = None,  # noqa: A002  (its name in the API)
        algorithm: str | None = None,
        digest: str | None = None,
        added_by: str | None = None,
    ) -> Call[models.HashEntry]:
        """Iterate over the entries, newest first."""
        params = given(list=list, algorithm=algorithm, digest=digest, added_by=added_by)
        return Call("GET", "/hash-lists", models.HashEntry, params)

    @operation("add_hashes")
    def add(self, entries: Sequence[Mapping[str, Any]]) -> Call[models.HashesAdded]:
        """Add up to 1,000 entries, each with `digest`, `list`, `reason` and `expires_at`."""
        return Call("POST", "/hash-lists", models.HashesAdded, body={"entries": entries})

    @operation("remove_hash")
    def remove(self, digest: str) -> Call[models.HashRemoved]:
        """Remove an entry."""
        return Call("DELETE", f"/hash-lists/{segment(digest)}", models.HashRemoved)

    @operation("quarantine_denied_files")
    def quarantine(self, digest: str) -> Call[models.Job]:
        """Start a job that puts the stored files with a denied SHA-256 into quarantine."""
        return Call("POST", f"/hash-lists/{segment(digest)}/quarantine", models.Job)


class Webhooks(Noun[S]):
    """Endpoints that events are sent to, and the deliveries. `verify_webhook` is for the receiver."""

    @listing("list_webhook_endpoints")
    def list(self) -> Call[models.WebhookEndpoint]:
        """Iterate over the endpoints."""
        return Call("GET", "/webhook-endpoints", models.WebhookEndpoint)

    @operation("create_webhook_endpoint")
    def create(
        self,
        url: str,
        events: Sequence[str],
        *,
        contexts: Sequence[str] | None = None,
        description: str | None = None,
    ) -> Call[models.WebhookEndpointSecret]:
        """Add an endpoint. Its secret is in the response and never shown again."""
        body = given(url=url, events=events, contexts=contexts, description=description)
        return Call("POST", "/webhook-endpoints", models.WebhookEndpointSecret, body=body)

    @operation("get_webhook_endpoint")
    def get(self, endpoint_id: str) -> Call[models.WebhookEndpoint]:
        """Return an endpoint."""
        return Call("GET", f"/webhook-endpoints/{segment(endpoint_id)}", models.WebhookEndpoint)

    @operation("update_webhook_endpoint")
    def update(
        self, endpoint_id: str, **changes: Unpack[models.WebhookEndpointChanges]
    ) -> Call[models.WebhookEndpoint]:
        """Change an endpoint."""
        return Call("PATCH", f"/webhook-endpoints/{segment(endpoint_id)}", models.WebhookEndpoint, body=changes)

    @operation("delete_webhook_endpoint")
    def delete(self, endpoint_id: str) -> Call[models.WebhookEndpointDeleted]:
        """Delete an endpoint."""
        return Call("DELETE", f"/webhook-endpoints/{segment(endpoint_id)}", models.WebhookEndpointDeleted)

    @operation("rotate_webhook_secret")
    def rotate_secret(self, endpoint_id: str) -> Call[models.WebhookEndpointSecret]:
        """Replace the secret; the old one signs too for 24 hours."""
        path = f"/webhook-endpoints/{segment(endpoint_id)}/rotate-secret"
        return Call("POST", path, models.WebhookEndpointSecret)

    @operation("test_webhook_endpoint")
    def test(self, endpoint_id: str) -> Call[models.WebhookTestSent]:
        """Send an `endpoint.test`."""
        return Call("POST", f"/webhook-endpoints/{segment(endpoint_id)}/test", models.WebhookTestSent)

    @operation("recover_webhook_events")
    def recover(self, endpoint_id: str, *, since: datetime, until: datetime) -> Call[models.WebhookEventsRecovered]:
        """Send again what the endpoint never took of a time."""
        body = {"since": since, "until": until}
        path = f"/webhook-endpoints/{segment(endpoint_id)}/recover"
        return Call("POST", path, models.WebhookEventsRecovered, body=body)

    @listing("list_webhook_deliveries")
    def deliveries(
        self, endpoint_id: str, *, status: str | None = None, page_size: int = 100
    ) -> Call[models.WebhookDelivery]:
        """Iterate over the deliveries to an endpoint, the newest first."""
        path = f"/webhook-endpoints/{segment(endpoint_id)}/deliveries"
        return Call("GET", path, models.WebhookDelivery, given(status=status, page_size=page_size))

    @operation("redeliver_webhook")
    def redeliver(self, delivery_id: str) -> Call[models.WebhookDelivery]:
        """Send an event again."""
        return Call("POST", f"/webhook-deliveries/{segment(delivery_id)}/redeliver", models.WebhookDelivery)


class Usage(Noun[S]):
    """What the tenant used, and its limits."""

    @operation("get_usage")
    def get(
        self, *, first_day: date | None = None, last_day: date | None = None, by: str | None = None
    ) -> Call[models.Usage]:
        """Return sums of a time, by `day` or `context` if wanted."""
        return Call("GET", "/usage", models.Usage, given(**{"from": first_day, "to": last_day, "by": by}))

    @operation("get_plan")
    def plan(self) -> Call[models.Plan]:
        """Return the limits of the tenant, and what is used of them."""
        return Call("GET", "/plan", models.Plan)


class Audit(Noun[S]):
    """Who changed what, and who was refused."""

    @listing("list_audit_events")
    def list(
        self, *, actor: str | None = None, action: str | None = None, page_size: int = 100
    ) -> Call[models.AuditEntry]:
        """Iterate over the audit log, the newest entries first."""
        return Call("GET", "/audit", models.AuditEntry, given(actor=actor, action=action, page_size=page_size))


class Messages(Noun[S]):
    """The sender's sentences in the languages that there are."""

    @listing("list_locales")
    def list(self) -> Call[models.Locale]:
        """Iterate over the locales."""
        return Call("GET", "/messages", models.Locale)

    @operation("get_messages")
    def get(self, locale: str) -> Call[models.MessageCatalogue]:
        """Return the sentences of a locale."""
        return Call("GET", f"/messages/{segment(locale)}", models.MessageCatalogue)


class ServiceState(Noun[S]):
    """The service itself. These need no credential."""

    @operation("live")
    def live(self) -> Call[models.Alive]:
        """Return if the process serves."""
        return Call("GET", "/health/live", models.Alive)

    @operation("ready")
    def ready(self) -> Call[models.Ready]:
        """Return the worst state among the engines; raise `Unavailable` if one is down."""
        return Call("GET", "/health/ready", models.Ready)

    @operation("receipt_keys")
    def receipt_keys(self) -> Call[models.PublicKeys]:
        """Return the public keys that verify receipts."""
        return Call("GET", "/.well-known/sluice-receipts.json", models.PublicKeys)
