"""Triggers, functions and row security of a new database: all that `db.schema` cannot declare, for both databases.

On SQLite a trigger holds its statements; on PostgreSQL it calls a function of its name that does. What is here is the
newest form: a migration step that changes it on existing databases changes it here too (docs/decisions/0015).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from sluice.db.rls import ALL_TENANTS_SETTING, INSTALLATION, TENANT_SETTING
from sluice.db.schema import metadata


def create(connection: Connection) -> None:
    """Create them in a database that has the declared tables."""
    schema = ""
    if connection.dialect.name == "postgresql":
        schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    for statement in statements(connection.dialect.name, schema):
        connection.exec_driver_sql(statement)


def statements(dialect: str, schema: str) -> Iterator[str]:
    """Yield what creates them. `schema` is that of the tables on PostgreSQL, quoted."""
    on_postgres = dialect == "postgresql"
    for trigger in (
        *_COUNTS_OF_LISTS,
        *_counts_of_buckets(on_postgres=on_postgres),
        *_usage(on_postgres=on_postgres),
        *_file_metadata(on_postgres=on_postgres),
    ):
        yield from trigger.create(on_postgres=on_postgres)
    yield from _append_only(on_postgres=on_postgres)
    if on_postgres:
        yield _VACUUM
        yield from _row_security()
        yield from _presented_secrets(schema)


@dataclass(frozen=True, slots=True)
class _Trigger:
    """Runs statements after an event, such as `UPDATE OF state ON files`, for each row that meets a condition."""

    name: str
    event: str
    condition: str
    body: str

    def create(self, *, on_postgres: bool) -> Iterator[str]:
        head = f"CREATE TRIGGER {self.name} AFTER {self.event} FOR EACH ROW WHEN ({self.condition})"
        if on_postgres:
            yield (
                f"CREATE FUNCTION {self.name}() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN {self.body} RETURN NULL; END $$"
            )
            yield f"{head} EXECUTE FUNCTION {self.name}()"
        else:
            yield f"{head} BEGIN {self.body} END"


# --- Counts of lists (docs/decisions/0014): a row in `count_deltas` for each row that comes onto a list or leaves it.
# Files are on their list while they are stored, contexts and audit entries while they exist.

_IS_STORED: Final = "new.state = 'stored'"
_WAS_STORED: Final = "old.state = 'stored'"
_BECAME_STORED: Final = "old.state <> 'stored' AND new.state = 'stored'"
_NO_LONGER_STORED: Final = "old.state = 'stored' AND new.state <> 'stored'"
_EVERY_ROW: Final = "1 = 1"


def _delta(row: str, list_name: str, facet_1: str, facet_2: str | None = None) -> str:
    """Return the statement that counts the `new` row, or no longer counts the `old` one, under its facets."""
    second = "''" if facet_2 is None else f"{row}.{facet_2}"
    change = 1 if row == "new" else -1
    return (
        "INSERT INTO count_deltas (tenant_id, list, facet_1, facet_2, change) "  # noqa: S608  (constants)
        f"VALUES ({row}.tenant_id, '{list_name}', {row}.{facet_1}, {second}, {change});"
    )


_FILE_CAME: Final = _delta("new", "files", "context_key", "uploaded_by")
_FILE_LEFT: Final = _delta("old", "files", "context_key", "uploaded_by")
_CONTEXT_CAME: Final = _delta("new", "contexts", "status")
_CONTEXT_LEFT: Final = _delta("old", "contexts", "status")
_ENTRY_CAME: Final = _delta("new", "audit_events", "actor_id", "action")
_ENTRY_LEFT: Final = _delta("old", "audit_events", "actor_id", "action")

_COUNTS_OF_LISTS: Final = (
    _Trigger("files_counted_1", "INSERT ON files", _IS_STORED, _FILE_CAME),
    _Trigger("files_counted_2", "UPDATE OF state ON files", _BECAME_STORED, _FILE_CAME),
    _Trigger("files_counted_3", "UPDATE OF state ON files", _NO_LONGER_STORED, _FILE_LEFT),
    _Trigger("files_counted_4", "DELETE ON files", _WAS_STORED, _FILE_LEFT),
    _Trigger("contexts_counted_1", "INSERT ON contexts", _EVERY_ROW, _CONTEXT_CAME),
    _Trigger(
        "contexts_counted_2",
        "UPDATE OF status ON contexts",
        "old.status <> new.status",
        f"{_CONTEXT_LEFT} {_CONTEXT_CAME}",
    ),
    _Trigger("contexts_counted_3", "DELETE ON contexts", _EVERY_ROW, _CONTEXT_LEFT),
    _Trigger("audit_events_counted_1", "INSERT ON audit_events", _EVERY_ROW, _ENTRY_CAME),
    _Trigger("audit_events_counted_2", "DELETE ON audit_events", _EVERY_ROW, _ENTRY_LEFT),
    # An erasure replaces the names of a person.
    _Trigger(
        "audit_events_counted_3",
        "UPDATE OF actor_id ON audit_events",
        "old.actor_id <> new.actor_id",
        f"{_ENTRY_LEFT} {_ENTRY_CAME}",
    ),
)


# --- Counts of the stored files in each bucket of a tenant, in the same way. The platform's own store has no id.


def _counts_of_buckets(*, on_postgres: bool) -> Iterator[_Trigger]:
    came, left = (_delta(row, "bucket_files", "storage_config_id") for row in ("new", "old"))
    is_in_bucket, was_in_bucket = "new.storage_config_id IS NOT NULL", "old.storage_config_id IS NOT NULL"
    differs = "IS DISTINCT FROM" if on_postgres else "IS NOT"
    moved = f"{_WAS_STORED} AND {_IS_STORED} AND old.storage_config_id {differs} new.storage_config_id"
    move = "UPDATE OF storage_config_id ON files"
    yield _Trigger("files_in_buckets_1", "INSERT ON files", f"{_IS_STORED} AND {is_in_bucket}", came)
    yield _Trigger("files_in_buckets_2", "UPDATE OF state ON files", f"{_BECAME_STORED} AND {is_in_bucket}", came)
    yield _Trigger("files_in_buckets_3", "UPDATE OF state ON files", f"{_NO_LONGER_STORED} AND {was_in_bucket}", left)
    yield _Trigger("files_in_buckets_4", move, f"{moved} AND {is_in_bucket}", came)
    yield _Trigger("files_in_buckets_5", move, f"{moved} AND {was_in_bucket}", left)
    yield _Trigger("files_in_buckets_6", "DELETE ON files", f"{_WAS_STORED} AND {was_in_bucket}", left)


# --- Usage: a row in `usage_deltas` for each stored file, download, rejection, and upload that was put into quarantine
# or left undecided.


def _usage(*, on_postgres: bool) -> Iterator[_Trigger]:
    def delta(moment: str, kind: str, size: str = "0") -> str:
        day = f"to_char({moment} AT TIME ZONE 'UTC', 'YYYY-MM-DD')" if on_postgres else f"substr({moment}, 1, 10)"
        return (
            "INSERT INTO usage_deltas (tenant_id, day, context_key, kind, number, bytes) "  # noqa: S608  (constants)
            f"VALUES (new.tenant_id, {day}, new.context_key, {kind}, 1, {size});"
        )

    yield _Trigger(
        "usage_counted_1",
        "UPDATE OF state ON files",
        # Of a file that was sanitised, only what was made of it is counted.
        "old.state = 'pending' AND new.state = 'stored' AND new.sanitised_file_id IS NULL",
        delta("new.created_at", "'upload'", "new.size_bytes"),
    )
    yield _Trigger(
        "usage_counted_2",
        "UPDATE OF download_count ON files",
        "new.download_count > old.download_count AND new.last_downloaded_at IS NOT NULL",
        delta("new.last_downloaded_at", "'download'"),
    )
    yield _Trigger(
        "usage_counted_3",
        "INSERT ON decisions",
        "new.outcome = 'rejected' AND new.reason IS NOT NULL",
        delta("new.created_at", "'rejected:' || new.reason"),
    )
    yield _Trigger(
        "usage_counted_4",
        "INSERT ON decisions",
        "new.outcome IN ('quarantined', 'undecided') AND new.mode NOT IN ('rescan', 'original')",
        delta("new.created_at", "new.outcome"),
    )


# --- Metadata of stored files, for the search: the rows of `file_metadata`. Texts, whole numbers, true and false at the
# first level, up to a length that every index takes.

_ADD_METADATA_POSTGRES: Final = """
INSERT INTO file_metadata (tenant_id, file_id, name, value)
SELECT new.tenant_id, new.file_id, pair.key,
       CASE json_typeof(pair.value) WHEN 'string' THEN pair.value #>> '{}' ELSE pair.value::text END
  FROM json_each(new.metadata) AS pair
 WHERE length(pair.key) <= 100
   AND (json_typeof(pair.value) IN ('string', 'boolean')
        OR (json_typeof(pair.value) = 'number' AND pair.value::text ~ '^-?[0-9]+$'))
   AND length(CASE json_typeof(pair.value) WHEN 'string' THEN pair.value #>> '{}' ELSE pair.value::text END) <= 200
ON CONFLICT DO NOTHING
"""
_ADD_METADATA_SQLITE: Final = """
INSERT INTO file_metadata (tenant_id, file_id, name, value)
SELECT new.tenant_id, new.file_id, pair.key,
       CASE pair.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE CAST(pair.value AS TEXT) END
  FROM json_each(new.metadata) AS pair
 WHERE pair.type IN ('text', 'integer', 'true', 'false')
   AND length(pair.key) <= 100
   AND length(pair.value) <= 200
ON CONFLICT DO NOTHING
"""


def _file_metadata(*, on_postgres: bool) -> Iterator[_Trigger]:
    add = f"{_ADD_METADATA_SQLITE};"
    if on_postgres:
        # An escaped letter may be none in PostgreSQL, such as the NUL. Such metadata is not searched, and no upload
        # fails for it.
        add = f"BEGIN {_ADD_METADATA_POSTGRES}; EXCEPTION WHEN data_exception THEN NULL; END;"
    remove = "DELETE FROM file_metadata WHERE file_id = old.file_id;"
    text = "metadata::text" if on_postgres else "metadata"
    has, had = f"new.{text} <> '{{}}'", f"old.{text} <> '{{}}'"
    yield _Trigger("files_searched_1", "INSERT ON files", f"{_IS_STORED} AND {has}", add)
    yield _Trigger("files_searched_2", "UPDATE OF state ON files", f"{_BECAME_STORED} AND {has}", add)
    yield _Trigger("files_searched_3", "UPDATE OF state ON files", f"{_NO_LONGER_STORED} AND {had}", remove)
    yield _Trigger("files_searched_4", "DELETE ON files", f"{_WAS_STORED} AND {had}", remove)


# --- The audit trail is append-only: no row is changed, but that an erasure replaces names (docs/decisions/0034).

_REFUSED: Final = "the audit trail is append-only"
_KEPT: Final = ("event_id", "tenant_id", "via", "action", "outcome", "error", "request_id", "created_at")
_NAMES: Final = ("actor_id", "actor_name", "target", "reason")


def _append_only(*, on_postgres: bool) -> Iterator[str]:
    same = "new.{0} IS NOT DISTINCT FROM old.{0}" if on_postgres else "new.{0} IS old.{0}"
    is_erasure = " AND ".join(
        [
            *(same.format(name) for name in _KEPT),
            *(f"({same.format(name)} OR new.{name} = 'erased')" for name in _NAMES),
        ]
    )
    of_events = "CREATE TRIGGER audit_events_append_only BEFORE UPDATE ON audit_events"
    of_changes = "CREATE TRIGGER audit_changes_append_only BEFORE UPDATE ON audit_changes"
    if on_postgres:
        yield (
            "CREATE FUNCTION audit_events_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN IF {is_erasure} THEN RETURN new; END IF; RAISE EXCEPTION '{_REFUSED}'; END $$"
        )
        yield f"{of_events} FOR EACH ROW EXECUTE FUNCTION audit_events_append_only()"
        yield (
            "CREATE FUNCTION audit_changes_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{_REFUSED}'; END $$"
        )
        yield f"{of_changes} FOR EACH ROW EXECUTE FUNCTION audit_changes_append_only()"
    else:
        yield f"{of_events} WHEN NOT ({is_erasure}) BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END"
        yield f"{of_changes} BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END"


# --- From here on PostgreSQL alone.

# An index-only scan needs pages that a vacuum has marked as all-visible, and every upload leaves a dead row: the
# default, a vacuum after 20 % of the rows, is too late for millions.
_VACUUM: Final = (
    "ALTER TABLE files SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05)"
)


# --- Row level security (docs/decisions/0016): a role that does not own the tables sees one tenant's rows at a time.

# Not `OR`: the planner would take it for a second, rarer condition beside the query's own tenant, and sort a tenant's
# files for one page.
_IN_SCOPE: Final = (
    f"CASE WHEN current_setting('{ALL_TENANTS_SETTING}', true) = 'on' THEN true "
    f"ELSE tenant_id = current_setting('{TENANT_SETTING}', true) END"
)


def _row_security() -> Iterator[str]:
    for table in metadata.sorted_tables:
        if "tenant_id" in table.columns:
            yield f"ALTER TABLE {table.name} ENABLE ROW LEVEL SECURITY"
            yield f"CREATE POLICY its_tenant ON {table.name} USING ({_IN_SCOPE})"
    # Hash lists of the installation are read by every tenant, and written by the operator's commands alone.
    for name in ("hash_entries", "hash_entry_counts"):
        yield f"CREATE POLICY of_installation ON {name} FOR SELECT USING (tenant_id = '{INSTALLATION}')"


# --- Presented secrets. The tenant of an API key or upload token is unknown until it is found, so these queries, for
# one whole prefix each, run as the owner; only the service's role may call them (`migrate.grant`). A step that adds a
# column which they return makes functions of new names, because servers of the release before call these.

_PRESENTED: Final = {
    # A key that was rotated is found by its text before, too.
    "presented_api_key": """
CREATE FUNCTION {schema}.presented_api_key(presented text) RETURNS TABLE (
    api_key_id varchar, tenant_id varchar, secret_hash bytea, key_prefix varchar, mode varchar, name varchar,
    scopes json, status varchar, metadata json, created_at timestamptz, updated_at timestamptz,
    expires_at timestamptz, last_used_at timestamptz, context_keys json, allowed_networks json, rate_per_minute integer,
    tenant_status varchar
) LANGUAGE plpgsql STABLE ROWS 1 SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT k.api_key_id, k.tenant_id,
        CASE k.key_prefix WHEN presented THEN k.secret_hash ELSE k.previous_secret_hash END,
        k.key_prefix, k.mode, k.name, k.scopes, k.status, k.metadata, k.created_at, k.updated_at,
        CASE k.key_prefix WHEN presented THEN k.expires_at ELSE k.previous_expires_at END,
        k.last_used_at, k.context_keys, k.allowed_networks, k.rate_per_minute, t.status
    FROM {schema}.api_keys k JOIN {schema}.tenants t ON t.tenant_id = k.tenant_id
    WHERE k.key_prefix = presented OR k.previous_prefix = presented;
END
$$
""",
    # With the limits of the key that made the token.
    "presented_upload_token": """
CREATE FUNCTION {schema}.presented_upload_token(presented text) RETURNS TABLE (
    token_id varchar, tenant_id varchar, secret_hash bytea, token_prefix varchar, mode varchar, context_key varchar,
    max_files integer, max_file_size_bytes bigint, allowed_extensions json, allowed_origins json, methods json,
    end_user varchar, metadata json, redirect_ok varchar, redirect_error varchar, files_claimed integer,
    attempts integer, created_by varchar, created_at timestamptz, expires_at timestamptz, revoked_at timestamptz,
    page_sentence varchar, tenant_status varchar, key_contexts json, key_rate_per_minute integer
) LANGUAGE plpgsql STABLE ROWS 1 SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT u.token_id, u.tenant_id, u.secret_hash, u.token_prefix, u.mode, u.context_key, u.max_files,
        u.max_file_size_bytes, u.allowed_extensions, u.allowed_origins, u.methods, u.end_user, u.metadata,
        u.redirect_ok, u.redirect_error, u.files_claimed, u.attempts, u.created_by, u.created_at, u.expires_at,
        u.revoked_at, u.page_sentence, t.status, k.context_keys, k.rate_per_minute
    FROM {schema}.upload_tokens u
    JOIN {schema}.tenants t ON t.tenant_id = u.tenant_id
    LEFT JOIN {schema}.api_keys k ON k.tenant_id = u.tenant_id AND k.api_key_id = u.created_by
    WHERE u.token_prefix = presented;
END
$$
""",
}


def _presented_secrets(schema: str) -> Iterator[str]:
    for name, function in _PRESENTED.items():
        yield function.format(schema=schema)
        yield f"REVOKE ALL ON FUNCTION {schema}.{name}(text) FROM PUBLIC"
