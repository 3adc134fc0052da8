"""All tables. What may be done with their rows is decided in the services; their queries are in the repositories.

The default bucket of a tenant is one row of `default_buckets` (primary key: the tenant), not a flag per bucket: so there cannot be
two, and swapping it takes one row lock (docs/decisions/0005).
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
    UniqueConstraint,
    literal_column,
    text,
)

from sluice.db.types import Document, Moment

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
    Column("access_key_id", String(128), nullable=False),
    Column("secret_sealed", String, nullable=False),
    Column("region", String(64), nullable=False),
    Column("default_bucket", String(63), nullable=False),
    Column("base_path", String(500), nullable=False),
    Column("endpoint_url", String(500), nullable=True),
    Column("is_active", Boolean, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=True),
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
    UniqueConstraint("tenant_id", "context_key"),
    ForeignKeyConstraint(["tenant_id", "storage_config_id"], ["storage_configs.tenant_id", "storage_configs.config_id"]),
    Index("ix_contexts_listing", "tenant_id", "context_id"),
    Index("ix_contexts_by_status", "tenant_id", "status", "context_id"),
)

_IN_QUARANTINE = text("quarantined_at IS NOT NULL")

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
    # No foreign key: a bucket may be forgotten while its files stay, and they then resolve to the default (decisions on storage).
    Column("storage_config_id", _ID, nullable=True),
    Column("object_key", String(2000), nullable=False),
    Column("uploaded_by", String(255), nullable=False),
    Column("uploaded_by_name", String(255), nullable=False),
    Column("metadata", Document, nullable=False),
    Column("download_count", Integer, nullable=False),
    Column("last_downloaded_at", Moment, nullable=True),
    Column("plan_month", String(7), nullable=True),
    Column("report_id", _ID, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("lease_until", Moment, nullable=True),
    Column("due_at", Moment, nullable=True),
    # The edition of the last scan and its moment; both are null where no scan was asked for.
    Column("scanned_with", String(160), nullable=True),
    Column("scanned_at", Moment, nullable=True),
    # Until then the file is left alone by those who scan again: one of them has it, or failed on it.
    Column("rescan_at", Moment, nullable=True),
    # A mark beside the state, so that listings, quota and deletion go on as before: only downloads look at it.
    Column("quarantined_at", Moment, nullable=True),
    # What the last scan that found something called it. It outlives a release, which is for this threat alone.
    Column("threat", String(256), nullable=True),
    Index("ix_files_verdicts", "state", "scanned_with", "scanned_at"),
    Index("ix_files_quarantine", "file_id", sqlite_where=_IN_QUARANTINE, postgresql_where=_IN_QUARANTINE),
)

IS_STORED: ColumnElement[bool] = files.c.state == literal_column("'stored'", String)
"""The condition of the indexes below, in words: with a parameter in its place, no planner would know that they hold every such row."""


def _of_stored(name: str, *columns: str) -> Index:
    """Index stored files only: a pending one is on no list, and the way of an upload then writes to each of these once, not twice.

    The state is in there all the same: SQLite would else look it up in each row.
    """
    return Index(name, *(files.c[column] for column in columns), files.c.state, postgresql_where=IS_STORED, sqlite_where=IS_STORED)


_of_stored("ix_files_listing", "tenant_id", "file_id")
_of_stored("ix_files_by_context", "tenant_id", "context_key", "file_id")
_of_stored("ix_files_by_uploader", "tenant_id", "uploaded_by", "file_id")
_of_stored("ix_files_by_both", "tenant_id", "context_key", "uploaded_by", "file_id")
for _name, _since in (("ix_files_leases", files.c.lease_until), ("ix_files_due", files.c.due_at)):
    Index(_name, files.c.state, _since, postgresql_where=_since.is_not(None), sqlite_where=_since.is_not(None))

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
    Index("ix_api_keys_listing", "tenant_id", "api_key_id"),
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
    Index("ix_audit_events_listing", "tenant_id", "event_id"),
    Index("ix_audit_events_by_actor", "tenant_id", "actor_id", "event_id"),
    Index("ix_audit_events_by_action", "tenant_id", "action", "event_id"),
    Index("ix_audit_events_by_both", "tenant_id", "actor_id", "action", "event_id"),
    Index("ix_audit_events_age", "created_at"),
)
"""Append-only: a trigger of the migration refuses every change of a row; only age removes one."""

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
    Index("ix_decisions_listing", "tenant_id", "report_id"),
    Index("ix_decisions_age", "created_at"),
)

row_counts = Table(
    "row_counts",
    metadata,
    Column("tenant_id", _ID, ForeignKey("tenants.tenant_id"), primary_key=True),
    Column("list", String(32), primary_key=True),
    Column("facet_1", String(255), primary_key=True),
    Column("facet_2", String(255), primary_key=True),
    Column("rows", BigInteger, nullable=False),
)
"""How long each list of a tenant is, whole and by each filter; an empty facet stands for all. See `db.counts` and docs/decisions/0014."""

count_deltas = Table(
    "count_deltas",
    metadata,
    Column("delta_id", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    # No foreign key: the row that is counted has one, and a second look at the same tenant would cost every upload.
    Column("tenant_id", _ID, nullable=False),
    Column("list", String(32), nullable=False),
    Column("facet_1", String(255), nullable=False),
    Column("facet_2", String(255), nullable=False),
    Column("change", Integer, nullable=False),
    Index("ix_count_deltas_listing", "tenant_id", "list"),
)
"""What is not yet in `row_counts`: a row by a trigger of the migration for each row that came onto a list or left it."""
