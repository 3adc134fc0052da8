"""All tables. Their queries are in the repositories; what may be done with the rows is decided in the services.

Triggers, functions and row security are in `db.triggers`. A change of either needs a migration step that does the
same to existing databases (docs/decisions/0015).

The default bucket of a tenant is one row of `default_buckets` (primary key: the tenant), not a flag per bucket: so
there cannot be two, and changing it takes one row lock (docs/decisions/0005).
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
    text,
)

from sluice.db.sql import Document, Moment

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

_ID = String(64)

tenants = Table(
    "tenants",
    metadata,
    Column("tenant_id", _ID, primary_key=True),
    Column("name", String(255), nullable=False),
    Column("plan", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("created_at", Moment, nullable=False),
)

storage_configs = Table(
    "storage_configs",
    metadata,
    Column("config_id", _ID, primary_key=True),
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("name", String(100), nullable=False),
    Column("provider", String(20), nullable=False),
    # Those of the provider: see `storage.protocol.ProviderSettings`.
    Column("settings", Document, nullable=False),
    Column("secret_sealed", String, nullable=False),
    Column("default_bucket", String(63), nullable=False),
    Column("base_path", String(500), nullable=False),
    Column("is_active", Boolean, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=True),
    # The last time that it was tried out, step by step: see `buckets.bucket.BucketProbe`.
    Column("last_probe", Document, nullable=True),
    UniqueConstraint("tenant_id", "name"),
    UniqueConstraint("tenant_id", "config_id"),
)

default_buckets = Table(
    "default_buckets",
    metadata,
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), primary_key=True),
    Column("config_id", _ID, nullable=False),
    ForeignKeyConstraint(["tenant_id", "config_id"], ["storage_configs.tenant_id", "storage_configs.config_id"]),
)

contexts = Table(
    "contexts",
    metadata,
    Column("context_id", _ID, primary_key=True),
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("context_key", String(100), nullable=False),
    Column("display_name", String(255), nullable=False),
    Column("description", String(1000), nullable=True),
    Column("allowed_extensions", Document, nullable=False),
    Column("max_file_size_mb", Integer, nullable=False),
    Column("storage_path_template", String(500), nullable=False),
    Column("reject_blank_files", Boolean, nullable=False),
    Column("reject_corrupt_files", Boolean, nullable=False),
    Column("scan_for_viruses", Boolean, nullable=False),
    Column("rate_max_uploads", Integer, nullable=True),
    Column("rate_window_seconds", Integer, nullable=True),
    Column("storage_quota_mb", Integer, nullable=True),
    Column("storage_used_bytes", BigInteger, nullable=False),
    Column("status", String(16), nullable=False),
    Column("metadata", Document, nullable=False),
    Column("storage_config_id", _ID, nullable=True),
    Column("rules_version", Integer, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=True),
    Column("check_modes", Document, nullable=False, server_default="{}"),
    Column("policies", Document, nullable=False, server_default="{}"),
    # How long files are kept, and since when that is counted; null is for ever.
    Column("retention_days", Integer, nullable=True),
    Column("retention_starts", String(16), nullable=False, server_default="stored"),
    # When the worker looks for files whose time is over, and the id up to which it has looked.
    Column("retention_due_at", Moment, nullable=True),
    Column("retention_after", _ID, nullable=True),
    # A legal hold on all files of the context, also those that come later.
    Column("held_at", Moment, nullable=True),
    Column("held_by", String(255), nullable=True),
    Column("hold_reason", String(1000), nullable=True),
    # What the upload page shows of who asks for the files; the logo is a PNG in base64.
    Column("page_name", String(100), nullable=True),
    Column("page_sentence", String(300), nullable=True),
    Column("page_color", String(7), nullable=True),
    Column("page_logo", Text, nullable=True),
    # At most three, each with its sealed secret.
    Column("external_checks", Document, nullable=False, server_default="[]"),
    # What is taken out of every file before it is stored; null is nothing.
    Column("sanitise", Document, nullable=True),
    # What its examples have in common: words that several of them have, and weights; null without examples.
    Column("document_kind", Document, nullable=True),
    UniqueConstraint("tenant_id", "context_key"),
    ForeignKeyConstraint(
        ["tenant_id", "storage_config_id"], ["storage_configs.tenant_id", "storage_configs.config_id"]
    ),
    Index("ix_contexts_listing", "tenant_id", "context_id"),
    Index("ix_contexts_by_status", "tenant_id", "status", "context_id"),
    Index(
        "ix_contexts_retention",
        "retention_due_at",
        sqlite_where=text("retention_due_at IS NOT NULL"),
        postgresql_where=text("retention_due_at IS NOT NULL"),
    ),
)

# Examples of the documents that a context expects: what is kept of them. Their files are not.
context_examples = Table(
    "context_examples",
    metadata,
    Column("example_id", _ID, primary_key=True),
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("context_id", _ID, ForeignKey("contexts.context_id"), nullable=False),
    Column("filename", String(255), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("content_type", String(255), nullable=False),
    Column("features", Document, nullable=False),
    Column("created_at", Moment, nullable=False),
    UniqueConstraint("context_id", "sha256"),
    Index("ix_context_examples_listing", "tenant_id", "context_id", "example_id"),
)

_IN_QUARANTINE = text("quarantined_at IS NOT NULL")
_RESCAN_ASKED = text("quarantined_at IS NOT NULL AND rescan_at IS NOT NULL")
_RESCAN_WANTED = text("rescan_asked_at IS NOT NULL")

files = Table(
    "files",
    metadata,
    Column("file_id", _ID, primary_key=True),
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("context_id", _ID, ForeignKey("contexts.context_id"), nullable=False),
    Column("context_key", String(100), nullable=False),
    Column("state", String(16), nullable=False),
    Column("original_filename", String(255), nullable=False),
    Column("content_type", String(255), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    # No foreign key: a bucket may be deleted while its files stay, and they then resolve to the default (decisions on
    # storage).
    Column("storage_config_id", _ID, nullable=True),
    Column("object_key", String(2000), nullable=False),
    Column("uploaded_by", String(255), nullable=False),
    Column("uploaded_by_name", String(255), nullable=False),
    Column("metadata", Document, nullable=False),
    Column("download_count", Integer, nullable=False),
    Column("last_downloaded_at", Moment, nullable=True),
    Column("plan_month", String(7), nullable=True),
    Column("upload_token_id", _ID, nullable=True),
    Column("report_id", _ID, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("lease_until", Moment, nullable=True),
    Column("due_at", Moment, nullable=True),
    # The engine version of the last scan and its moment; both are null if no scan was requested.
    Column("scanned_with", String(160), nullable=True),
    Column("scanned_at", Moment, nullable=True),
    # Not rescanned before this moment: a worker has claimed the file, or failed on it. In quarantine: when a reviewer
    # wants it scanned.
    Column("rescan_at", Moment, nullable=True),
    # When a reviewer asked to scan a file again that is not in quarantine.
    Column("rescan_asked_at", Moment, nullable=True),
    # A mark beside the state, so that listings, quota and deletion do not change: only downloads check it.
    Column("quarantined_at", Moment, nullable=True),
    # The threat that the last infected scan named. It outlives a release from quarantine, which is for this threat
    # alone.
    Column("threat", String(256), nullable=True),
    # What the first of two reviewers decided on a file in quarantine, and who that was.
    Column("review_decision", String(16), nullable=True),
    Column("reviewed_by", String(255), nullable=True),
    Column("reviewed_at", Moment, nullable=True),
    # `due_at` of the file when it was deleted, which a restore puts back: that of a test key's file.
    Column("restored_due_at", Moment, nullable=True),
    # When a file was deleted that can be restored.
    Column("deleted_at", Moment, nullable=True),
    # A legal hold on this file.
    Column("held_at", Moment, nullable=True),
    Column("held_by", String(255), nullable=True),
    Column("hold_reason", String(1000), nullable=True),
    # Of what was sent, which is kept in quarantine: the id of the file that was made of it by sanitising.
    Column("sanitised_file_id", _ID, nullable=True),
    Index("ix_files_verdicts", "state", "scanned_with", "scanned_at"),
    Index("ix_files_quarantine", "file_id", sqlite_where=_IN_QUARANTINE, postgresql_where=_IN_QUARANTINE),
    Index(
        "ix_files_review",
        "tenant_id",
        "file_id",
        "state",
        sqlite_where=_IN_QUARANTINE,
        postgresql_where=_IN_QUARANTINE,
    ),
    Index(
        "ix_files_review_by_context",
        "tenant_id",
        "context_key",
        "file_id",
        "state",
        sqlite_where=_IN_QUARANTINE,
        postgresql_where=_IN_QUARANTINE,
    ),
    Index("ix_files_rescans_asked", "rescan_at", sqlite_where=_RESCAN_ASKED, postgresql_where=_RESCAN_ASKED),
    Index("ix_files_rescans_wanted", "rescan_asked_at", sqlite_where=_RESCAN_WANTED, postgresql_where=_RESCAN_WANTED),
)

# The condition of the indexes below, as a literal: with a parameter in its place, no planner would know that they hold
# every such row.
IS_STORED: ColumnElement[bool] = files.c.state == literal_column("'stored'", String)
IS_DELETED: ColumnElement[bool] = files.c.state == literal_column("'deleted'", String)


def _of_stored(name: str, *columns: str) -> Index:
    # Stored files only: a pending one is on no list, and an upload then writes to each of these indexes once, not
    # twice. The state is a column all the same: otherwise SQLite would read it from each row.
    return Index(
        name,
        *(files.c[column] for column in columns),
        files.c.state,
        postgresql_where=IS_STORED,
        sqlite_where=IS_STORED,
    )


_of_stored("ix_files_listing", "tenant_id", "file_id")
_of_stored("ix_files_by_context", "tenant_id", "context_key", "file_id")
_of_stored("ix_files_by_uploader", "tenant_id", "uploaded_by", "file_id")
_of_stored("ix_files_by_both", "tenant_id", "context_key", "uploaded_by", "file_id")
_of_stored("ix_files_by_sha256", "tenant_id", "sha256", "context_key")
_of_stored("ix_files_by_name", "tenant_id", "original_filename", "file_id")
_of_stored("ix_files_by_type", "tenant_id", "content_type", "file_id")
_of_stored("ix_files_by_size", "tenant_id", "size_bytes", "file_id")
# Those that can be restored, for the lists of the console.
_IS_DELETED = text("state = 'deleted'")
Index(
    "ix_files_deleted",
    files.c.tenant_id,
    files.c.file_id,
    files.c.state,
    postgresql_where=_IS_DELETED,
    sqlite_where=_IS_DELETED,
)
Index(
    "ix_files_deletions",
    files.c.tenant_id,
    files.c.deleted_at,
    files.c.file_id,
    files.c.state,
    postgresql_where=_IS_DELETED,
    sqlite_where=_IS_DELETED,
)
for _name, _since in (("ix_files_leases", files.c.lease_until), ("ix_files_due", files.c.due_at)):
    Index(_name, files.c.state, _since, postgresql_where=_since.is_not(None), sqlite_where=_since.is_not(None))

# The metadata of stored files, for the search: triggers keep it (`db.triggers`). Only texts, whole numbers, true and
# false at the first level, with names of at most 100 letters and values of at most 200.
file_metadata = Table(
    "file_metadata",
    metadata,
    Column("file_id", _ID, primary_key=True),
    Column("name", String(100), primary_key=True),
    # No foreign keys, as in `count_deltas`.
    Column("tenant_id", _ID, nullable=False),
    Column("value", String(200), nullable=False),
    Index("ix_file_metadata_search", "tenant_id", "name", "value", "file_id"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("api_key_id", _ID, primary_key=True),
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("secret_hash", LargeBinary(32), nullable=False),
    Column("key_prefix", String(64), nullable=False, unique=True),
    Column("mode", String(8), nullable=False),
    Column("name", String(255), nullable=False),
    Column("scopes", Document, nullable=False),
    Column("status", String(16), nullable=False),
    Column("metadata", Document, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=True),
    Column("expires_at", Moment, nullable=True),
    Column("last_used_at", Moment, nullable=True),
    # What it is limited to; null: not limited.
    Column("context_keys", Document, nullable=True),
    Column("allowed_networks", Document, nullable=True),
    Column("rate_per_minute", Integer, nullable=True),
    # The text that it had before it was rotated, which is good until then.
    Column("previous_prefix", String(64), nullable=True),
    Column("previous_secret_hash", LargeBinary(32), nullable=True),
    Column("previous_expires_at", Moment, nullable=True),
    Index("ix_api_keys_listing", "tenant_id", "api_key_id"),
    Index("ix_api_keys_previous", "previous_prefix"),
)

upload_tokens = Table(
    "upload_tokens",
    metadata,
    Column("token_id", _ID, primary_key=True),
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("secret_hash", LargeBinary(32), nullable=False),
    Column("token_prefix", String(64), nullable=False, unique=True),
    Column("mode", String(8), nullable=False),
    Column("context_key", String(100), nullable=False),
    Column("max_files", Integer, nullable=False),
    Column("max_file_size_bytes", BigInteger, nullable=True),
    Column("allowed_extensions", Document, nullable=False),
    Column("allowed_origins", Document, nullable=False),
    Column("methods", Document, nullable=False),
    Column("end_user", String(255), nullable=True),
    Column("metadata", Document, nullable=False),
    Column("redirect_ok", String(2000), nullable=True),
    Column("redirect_error", String(2000), nullable=True),
    # Files that are stored, and those that are about to be.
    Column("files_claimed", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("created_by", String(255), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("revoked_at", Moment, nullable=True),
    Column("page_sentence", String(300), nullable=True),
    Index("ix_upload_tokens_listing", "tenant_id", "token_id"),
    Index("ix_upload_tokens_age", "expires_at"),
    Index(
        "ix_upload_tokens_by_end_user",
        "tenant_id",
        "end_user",
        "token_id",
        sqlite_where=text("end_user IS NOT NULL"),
        postgresql_where=text("end_user IS NOT NULL"),
    ),
)

# The origins whose pages may call the API: those of a tenant, with an empty token, and those of its tokens.
cors_origins = Table(
    "cors_origins",
    metadata,
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), primary_key=True),
    Column("token_id", _ID, primary_key=True),
    Column("origin", String(255), primary_key=True),
    Column("expires_at", Moment, nullable=True),
    Index("ix_cors_origins_by_origin", "origin", "expires_at"),
)

# Files that are denied or need no malware scan, by a digest of their bytes; its length says which one it is: 16 MD5, 20
# SHA-1, 32 SHA-256. Entries of the installation have the tenant id `hash_lists.entry.INSTALLATION`, hence no foreign
# key.
hash_entries = Table(
    "hash_entries",
    metadata,
    Column("tenant_id", _ID, primary_key=True),
    Column("digest", LargeBinary(32), primary_key=True),
    Column("list", String(8), nullable=False),
    Column("reason", String(500), nullable=True),
    Column("added_by_id", String(255), nullable=False),
    Column("added_by_name", String(255), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=True),
    Index("ix_hash_entries_listing", "tenant_id", "created_at", "digest"),
    # Few next to those that deny.
    Index(
        "ix_hash_entries_allowed",
        "tenant_id",
        "created_at",
        "digest",
        sqlite_where=text("list = 'allow'"),
        postgresql_where=text("list = 'allow'"),
    ),
    Index(
        "ix_hash_entries_expiry",
        "expires_at",
        sqlite_where=text("expires_at IS NOT NULL"),
        postgresql_where=text("expires_at IS NOT NULL"),
    ),
)

# How many entries there are of each list and algorithm: what an upload reads before it asks for any. A change of
# entries locks the rows of their tenant until it is committed.
hash_entry_counts = Table(
    "hash_entry_counts",
    metadata,
    Column("tenant_id", _ID, primary_key=True),
    Column("list", String(8), primary_key=True),
    Column("algorithm", String(8), primary_key=True),
    Column("entries", BigInteger, nullable=False),
)

# Uploads whose bytes come in several requests: see `resumable.resumable_upload`.
resumable_uploads = Table(
    "resumable_uploads",
    metadata,
    Column("upload_id", _ID, primary_key=True),
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("actor_id", String(255), nullable=False),
    Column("via", String(16), nullable=False),
    Column("context_key", String(100), nullable=False),
    Column("filename", String(255), nullable=False),
    # As JSON text, and the header `Upload-Metadata` as it was sent.
    Column("metadata", String, nullable=True),
    Column("sent_metadata", String, nullable=True),
    Column("length", BigInteger, nullable=False),
    Column("received", BigInteger, nullable=False),
    Column("small_appends", Integer, nullable=False),
    # That of the request that may append; each request begins one.
    Column("generation", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    # Of the attempt to judge it: its decision, the row of its file once that is reserved, and its lease.
    Column("report_id", _ID, nullable=True),
    Column("file_id", _ID, nullable=True),
    Column("judging_until", Moment, nullable=True),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    # When the worker has something to do with it.
    Column("due_at", Moment, nullable=False),
    Index("ix_resumable_uploads_by_state", "tenant_id", "state"),
    Index("ix_resumable_uploads_due", "due_at"),
)

# Each is one object in the platform's store, and exists before its row. `size_bytes` is what it had then: a file of the
# local store grows, and ends where the next part begins or the upload does.
resumable_parts = Table(
    "resumable_parts",
    metadata,
    Column("upload_id", _ID, primary_key=True),
    Column("start_byte", BigInteger, primary_key=True),
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("object_key", String(255), nullable=False),
)

# Who is signed in to the console, and the links that sign a user in. Only hashes of their secrets are kept.
console_links = Table(
    "console_links",
    metadata,
    Column("link_id", _ID, primary_key=True),
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("secret_hash", LargeBinary(32), nullable=False),
    Column("user_id", String(255), nullable=False),
    Column("user_name", String(255), nullable=False),
    Column("scopes", Document, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    # Null until a browser opens the link; from then on it works in that browser only.
    Column("browser_hash", LargeBinary(32), nullable=True),
    Index("ix_console_links_age", "expires_at"),
)

console_sessions = Table(
    "console_sessions",
    metadata,
    Column("session_id", _ID, primary_key=True),
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("secret_hash", LargeBinary(32), nullable=False),
    Column("user_id", String(255), nullable=False),
    Column("user_name", String(255), nullable=False),
    Column("scopes", Document, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Index("ix_console_sessions_age", "expires_at"),
)

# Named users of the console and their passkeys, of which the public part is kept.
console_users = Table(
    "console_users",
    metadata,
    Column("user_id", _ID, primary_key=True),
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("name", String(255), nullable=False),
    Column("role", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("created_at", Moment, nullable=False),
    # The link that lets the user register a passkey; null once it is used.
    Column("invitation_hash", LargeBinary(32), nullable=True),
    Column("invited_until", Moment, nullable=True),
    Column("last_sign_in_at", Moment, nullable=True),
    Index("ix_console_users_listing", "tenant_id", "user_id"),
)

console_passkeys = Table(
    "console_passkeys",
    metadata,
    Column("credential_id", LargeBinary(1023), primary_key=True),
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("user_id", _ID, ForeignKey("console_users.user_id"), nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("sign_count", BigInteger, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("last_used_at", Moment, nullable=True),
    Index("ix_console_passkeys_listing", "tenant_id", "user_id"),
)

# What browsers have to sign: of no tenant, since who signs in is unknown before. Only a hash is kept.
console_challenges = Table(
    "console_challenges",
    metadata,
    Column("challenge_hash", LargeBinary(32), primary_key=True),
    Column("expires_at", Moment, nullable=False),
    Index("ix_console_challenges_age", "expires_at"),
)

# Uploads by the idempotency key of their request. How one ended is in `decisions`, under its report's id.
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), primary_key=True),
    # SHA-256 of the credential's id and the key
    Column("key_hash", String(64), primary_key=True),
    # SHA-256 of what was sent
    Column("fingerprint", String(64), nullable=False),
    Column("report_id", _ID, nullable=False),
    # Null until room for the file is reserved
    Column("file_id", _ID, nullable=True),
    # Null once the upload has failed
    Column("lease_until", Moment, nullable=True),
    Column("expires_at", Moment, nullable=False),
    Index("ix_idempotency_keys_age", "expires_at"),
)

plan_usage = Table(
    "plan_usage",
    metadata,
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), primary_key=True),
    Column("month", String(7), primary_key=True),
    Column("uploads", Integer, nullable=False),
)

rate_takes = Table(
    "rate_takes",
    metadata,
    Column("key", String(64), primary_key=True),
    # Microseconds since 1970 by the database's clock, not a moment: windows are compared exactly.
    Column("taken_us", BigInteger, primary_key=True),
    Column("token", String(32), primary_key=True),
    Index("ix_rate_takes_age", "taken_us"),
)

# Append-only: a trigger refuses every change of a row but that an erasure replaces names; only age removes one.
audit_events = Table(
    "audit_events",
    metadata,
    Column("event_id", _ID, primary_key=True),
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("actor_id", String(255), nullable=False),
    Column("actor_name", String(255), nullable=False),
    Column("via", String(16), nullable=False),
    Column("action", String(64), nullable=False),
    Column("target", String(255), nullable=True),
    Column("outcome", String(16), nullable=False),
    Column("error", String(64), nullable=True),
    Column("request_id", String(64), nullable=True),
    Column("created_at", Moment, nullable=False),
    # Why it was done, as the actor said: of holds and reviews.
    Column("reason", String(1000), nullable=True),
    Index("ix_audit_events_listing", "tenant_id", "event_id"),
    Index("ix_audit_events_by_actor", "tenant_id", "actor_id", "event_id"),
    Index("ix_audit_events_by_action", "tenant_id", "action", "event_id"),
    Index("ix_audit_events_by_both", "tenant_id", "actor_id", "action", "event_id"),
    # What was done to one thing: the history of a file. Uploads write no entry.
    Index(
        "ix_audit_events_by_target",
        "tenant_id",
        "target",
        "event_id",
        sqlite_where=text("target IS NOT NULL"),
        postgresql_where=text("target IS NOT NULL"),
    ),
    Index("ix_audit_events_age", "created_at"),
)

# The old and the new value of what an entry of the audit log says was changed, by the name of the field. None of them
# is a secret, and the row goes with its entry.
audit_changes = Table(
    "audit_changes",
    metadata,
    Column("event_id", _ID, primary_key=True),
    # No foreign key, as in `count_deltas`.
    Column("tenant_id", _ID, nullable=False),
    Column("target", String(255), nullable=False),
    Column("changes", Document, nullable=False),
    Index("ix_audit_changes_by_target", "tenant_id", "target", "event_id"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("report_id", _ID, primary_key=True),
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("file_id", _ID, nullable=True),
    Column("context_key", String(100), nullable=False),
    Column("mode", String(16), nullable=False),
    Column("rules", Document, nullable=False),
    Column("rules_version", Integer, nullable=False),
    Column("facts", Document, nullable=False),
    Column("engines", Document, nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("reason", String(64), nullable=True),
    Column("detail", String(1000), nullable=False),
    Column("actor", Document, nullable=False),
    Column("created_at", Moment, nullable=False),
    # Null in rows of releases that did not write them.
    Column("actor_id", String(255), nullable=True),
    Column("original_filename", String(255), nullable=True),
    Column("duration_ms", Integer, nullable=True),
    # Of uploads that were rejected for their content: what is the same if the file is sent again.
    Column("repeat_key", String(64), nullable=True),
    Index("ix_decisions_listing", "tenant_id", "report_id"),
    Index("ix_decisions_by_context", "tenant_id", "context_key", "report_id"),
    Index("ix_decisions_by_actor", "tenant_id", "actor_id", "report_id"),
    # Accepted uploads are in no further index: they are listed as files.
    *(
        Index(
            f"ix_decisions_failed_by_{name}",
            "tenant_id",
            column,
            "outcome",
            "report_id",
            sqlite_where=text("outcome <> 'accepted'"),
            postgresql_where=text("outcome <> 'accepted'"),
        )
        for name, column in (("context", "context_key"), ("actor", "actor_id"))
    ),
    Index(
        "ix_decisions_by_reason",
        "tenant_id",
        "reason",
        "report_id",
        sqlite_where=text("reason IS NOT NULL"),
        postgresql_where=text("reason IS NOT NULL"),
    ),
    Index(
        "ix_decisions_by_outcome",
        "tenant_id",
        "outcome",
        "report_id",
        sqlite_where=text("outcome <> 'accepted'"),
        postgresql_where=text("outcome <> 'accepted'"),
    ),
    Index(
        "ix_decisions_quarantined_by_reason",
        "tenant_id",
        "reason",
        "report_id",
        sqlite_where=text("outcome = 'quarantined'"),
        postgresql_where=text("outcome = 'quarantined'"),
    ),
    Index(
        "ix_decisions_repeated",
        "tenant_id",
        "repeat_key",
        "report_id",
        sqlite_where=text("repeat_key IS NOT NULL"),
        postgresql_where=text("repeat_key IS NOT NULL"),
    ),
    Index("ix_decisions_age", "created_at"),
)

# Groups of rejections that were reviewed, up to the report `report_id`: a later one opens a group that was
# reviewed again, and leaves one that was muted as it is. Who it was is in the entry `event_id` of the audit log.
rejection_marks = Table(
    "rejection_marks",
    metadata,
    # No foreign key, as in `count_deltas`.
    Column("tenant_id", _ID, primary_key=True),
    Column("group_id", _ID, primary_key=True),
    Column("state", String(16), nullable=False),
    Column("report_id", _ID, nullable=False),
    Column("event_id", _ID, nullable=False),
    Column("marked_at", Moment, nullable=False),
)

# The count of each list of a tenant, in total and by each filter; an empty facet means all. See `db.counts` and
# docs/decisions/0014.
row_counts = Table(
    "row_counts",
    metadata,
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), primary_key=True),
    Column("list", String(32), primary_key=True),
    Column("facet_1", String(255), primary_key=True),
    Column("facet_2", String(255), primary_key=True),
    Column("rows", BigInteger, nullable=False),
)

# What is not yet in `row_counts`: a trigger adds a row for each row that comes onto a list or leaves it.
count_deltas = Table(
    "count_deltas",
    metadata,
    Column("delta_id", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    # No foreign key: the row that is counted has one, and checking the same tenant twice would cost every upload.
    Column("tenant_id", _ID, nullable=False),
    Column("list", String(32), nullable=False),
    Column("facet_1", String(255), nullable=False),
    Column("facet_2", String(255), nullable=False),
    Column("change", Integer, nullable=False),
    Index("ix_count_deltas_listing", "tenant_id", "list"),
)

# What each context of a tenant had on each day: files stored, links handed out, rejections by reason, uploads put into
# quarantine or left undecided. See `usage.repository`.
usage_days = Table(
    "usage_days",
    metadata,
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), primary_key=True),
    Column("day", String(10), primary_key=True),
    Column("context_key", String(100), primary_key=True),
    Column("kind", String(80), primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
)

# What is not yet in `usage_days`: triggers add a row for each.
usage_deltas = Table(
    "usage_deltas",
    metadata,
    Column("delta_id", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    # No foreign key, as in `count_deltas`.
    Column("tenant_id", _ID, nullable=False),
    Column("day", String(10), nullable=False),
    Column("context_key", String(100), nullable=False),
    Column("kind", String(80), nullable=False),
    Column("number", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Index("ix_usage_deltas_listing", "tenant_id", "day"),
)

_HAS_NOT_ENDED = text("due_at IS NOT NULL")

# Work on many files that a request asked for: see `jobs.job`. `due_at` is when a worker may take it, null at its end.
jobs = Table(
    "jobs",
    metadata,
    Column("job_id", _ID, primary_key=True),
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("state", String(16), nullable=False),
    Column("params", Document, nullable=False),
    Column("total", BigInteger, nullable=True),
    Column("done", BigInteger, nullable=False),
    Column("skipped", BigInteger, nullable=False),
    Column("error", String(255), nullable=True),
    Column("position", String(255), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("actor_id", String(255), nullable=False),
    Column("actor_name", String(255), nullable=False),
    Column("via", String(16), nullable=False),
    Column("request_id", String(64), nullable=True),
    Column("created_at", Moment, nullable=False),
    Column("started_at", Moment, nullable=True),
    Column("ended_at", Moment, nullable=True),
    Column("due_at", Moment, nullable=True),
    # What it found besides its numbers: files that were refused, objects that it wrote. Of a job that has ended,
    # `due_at` is when these objects are to be deleted.
    Column("result", Document, nullable=True),
    Index("ix_jobs_listing", "tenant_id", "job_id"),
    Index("ix_jobs_by_state", "tenant_id", "state", "job_id"),
    Index("ix_jobs_due", "due_at", sqlite_where=_HAS_NOT_ENDED, postgresql_where=_HAS_NOT_ENDED),
)

# What an erasure did with each file of a person: `erased`, or `held` by a legal hold. It goes with its job.
erased_files = Table(
    "erased_files",
    metadata,
    Column("job_id", _ID, primary_key=True),
    Column("file_id", _ID, primary_key=True),
    # No foreign keys, as in `count_deltas`.
    Column("tenant_id", _ID, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("outcome", String(16), nullable=False),
)

_NUMBERED = text("sequence IS NOT NULL")
_UNNUMBERED = text("sequence IS NULL")

# The outbox: what happened, written by the transaction that did it. `sequence` is null until the event is numbered,
# which is after that transaction was committed (docs/decisions/0032).
events = Table(
    "events",
    metadata,
    Column("event_id", _ID, primary_key=True),
    # No foreign key, as in `count_deltas`.
    Column("tenant_id", _ID, nullable=False),
    Column("type", String(64), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("data", Document, nullable=False),
    Column("sequence", BigInteger, nullable=True),
    Index("ix_events_unnumbered", "tenant_id", "event_id", sqlite_where=_UNNUMBERED, postgresql_where=_UNNUMBERED),
    Index("ix_events_feed", "tenant_id", "sequence", unique=True, sqlite_where=_NUMBERED, postgresql_where=_NUMBERED),
    Index("ix_events_by_type", "tenant_id", "type", "sequence", sqlite_where=_NUMBERED, postgresql_where=_NUMBERED),
)

# The number of each tenant's last event. Its row is locked while events are numbered.
event_counters = Table(
    "event_counters",
    metadata,
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), primary_key=True),
    Column("last_sequence", BigInteger, nullable=False),
)

# Where events are sent. Events with a number above `sequence` have no deliveries yet; `lease_until` is that of the
# worker that delivers.
webhook_endpoints = Table(
    "webhook_endpoints",
    metadata,
    Column("endpoint_id", _ID, primary_key=True),
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("url", String(2000), nullable=False),
    Column("event_types", Document, nullable=False),
    Column("context_keys", Document, nullable=False),
    Column("description", String(255), nullable=True),
    Column("status", String(16), nullable=False),
    Column("disabled_reason", String(16), nullable=True),
    Column("secret_sealed", String, nullable=False),
    # The secret before, which signs too until a day after the change.
    Column("old_secret_sealed", String, nullable=True),
    Column("old_secret_until", Moment, nullable=True),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=True),
    Column("sequence", BigInteger, nullable=False),
    Column("failing_since", Moment, nullable=True),
    Column("lease_until", Moment, nullable=True),
    Index("ix_webhook_endpoints_listing", "tenant_id", "endpoint_id"),
)

_IS_PENDING = text("state = 'pending'")

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("delivery_id", _ID, primary_key=True),
    # No foreign keys: deliveries of a deleted endpoint go with their age.
    Column("tenant_id", _ID, nullable=False),
    Column("endpoint_id", _ID, nullable=False),
    Column("event_id", _ID, nullable=False),
    Column("event_type", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", Moment, nullable=True),
    Column("created_at", Moment, nullable=False),
    Column("attempted_at", Moment, nullable=True),
    # The last attempt: null if there was no response, or none yet.
    Column("response_status", Integer, nullable=True),
    Column("response_headers", Document, nullable=True),
    Column("response_body", String(2048), nullable=True),
    Column("error", String(255), nullable=True),
    Column("duration_ms", Integer, nullable=True),
    UniqueConstraint("endpoint_id", "event_id"),
    Index("ix_webhook_deliveries_listing", "tenant_id", "endpoint_id", "delivery_id"),
    Index("ix_webhook_deliveries_by_state", "tenant_id", "endpoint_id", "state", "delivery_id"),
    Index("ix_webhook_deliveries_due", "endpoint_id", "due_at", sqlite_where=_IS_PENDING, postgresql_where=_IS_PENDING),
)

# What a limit of a tenant was last announced as: the percentage of a quota or plan, or 1 for a key that expires soon.
event_levels = Table(
    "event_levels",
    metadata,
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), primary_key=True),
    Column("subject_type", String(16), primary_key=True),
    Column("subject_id", _ID, primary_key=True),
    Column("level", Integer, nullable=False),
)

# Buckets that fail, or have failed until a moment ago.
bucket_outages = Table(
    "bucket_outages",
    metadata,
    Column("config_id", _ID, primary_key=True),
    Column("tenant_id", _ID, nullable=False),
    Column("failing_since", Moment, nullable=False),
    # When it was announced as unreachable, and since when it works again.
    Column("announced_at", Moment, nullable=True),
    Column("working_since", Moment, nullable=True),
    Column("check_at", Moment, nullable=False),
    ForeignKeyConstraint(
        ["tenant_id", "config_id"], ["storage_configs.tenant_id", "storage_configs.config_id"], ondelete="CASCADE"
    ),
)
