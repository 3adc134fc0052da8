"""Indexes to search files by name, type, size and metadata; jobs on many files;
usage of each day.

Only expands: the release before neither reads nor writes what is added, and the triggers index the metadata of its
uploads too. While it runs, on 10 million files for some minutes, nobody can upload.
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_ID = sa.String(length=64)
_IS_STORED = sa.text("state = 'stored'")
_HAS_NOT_ENDED = sa.text("due_at IS NOT NULL")
_MOMENT = sa.DateTime(timezone=True)
_TABLES = ("file_metadata", "jobs", "usage_days", "usage_deltas")
# As in step 0007
_IN_SCOPE = (
    "CASE WHEN current_setting('sluice.everybody', true) = 'on' THEN true "
    "ELSE tenant_id = current_setting('sluice.tenant', true) END"
)

# What is counted: the event, its condition, and day, kind and bytes of it.
_DAY = {"postgresql": "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD')", "sqlite": "substr({}, 1, 10)"}
_COUNTED = (
    (
        "files",
        "UPDATE OF state",
        "old.state = 'pending' AND new.state = 'stored'",
        ("new.created_at", "'upload'", "new.size_bytes"),
    ),
    (
        "files",
        "UPDATE OF download_count",
        "new.download_count > old.download_count AND new.last_downloaded_at IS NOT NULL",
        ("new.last_downloaded_at", "'download'", "0"),
    ),
    (
        "decisions",
        "INSERT",
        "new.outcome = 'rejected' AND new.reason IS NOT NULL",
        ("new.created_at", "'rejected:' || new.reason", "0"),
    ),
)
_CAME = "old.state <> 'stored' AND new.state = 'stored'"
_LEFT = "old.state = 'stored' AND new.state <> 'stored'"
# Each with the row that it concerns.
_CHANGES = (
    ("INSERT", "new", "new.state = 'stored'", "came"),
    ("UPDATE OF state", "new", _CAME, "came"),
    ("UPDATE OF state", "old", _LEFT, "left"),
    ("DELETE", "old", "old.state = 'stored'", "left"),
)
# Texts, whole numbers, true and false at the first level, up to a length that every index takes.
_PAIRS_POSTGRES = """
INSERT INTO file_metadata (tenant_id, file_id, name, value)
SELECT {row}.tenant_id, {row}.file_id, pair.key,
       CASE json_typeof(pair.value) WHEN 'string' THEN pair.value #>> '{{}}' ELSE pair.value::text END
  FROM {source}json_each({row}.metadata) AS pair
 WHERE length(pair.key) <= 100
   AND (json_typeof(pair.value) IN ('string', 'boolean')
        OR (json_typeof(pair.value) = 'number' AND pair.value::text ~ '^-?[0-9]+$'))
   AND length(CASE json_typeof(pair.value) WHEN 'string' THEN pair.value #>> '{{}}' ELSE pair.value::text END) <= 200
ON CONFLICT DO NOTHING
"""
_PAIRS_SQLITE = """
INSERT INTO file_metadata (tenant_id, file_id, name, value)
SELECT {row}.tenant_id, {row}.file_id, pair.key,
       CASE pair.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE CAST(pair.value AS TEXT) END
  FROM {source}json_each({row}.metadata) AS pair
 WHERE pair.type IN ('text', 'integer', 'true', 'false')
   AND length(pair.key) <= 100
   AND length(pair.value) <= 200
ON CONFLICT DO NOTHING
"""


def upgrade() -> None:
    for name, columns in (
        ("ix_files_by_name", ["tenant_id", "original_filename", "file_id", "state"]),
        ("ix_files_by_type", ["tenant_id", "content_type", "file_id", "state"]),
        ("ix_files_by_size", ["tenant_id", "size_bytes", "file_id", "state"]),
    ):
        op.create_index(name, "files", columns, unique=False, sqlite_where=_IS_STORED, postgresql_where=_IS_STORED)
    op.create_table(
        "file_metadata",
        sa.Column("file_id", _ID, nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("tenant_id", _ID, nullable=False),
        sa.Column("value", sa.String(length=200), nullable=False),
        sa.PrimaryKeyConstraint("file_id", "name", name=op.f("pk_file_metadata")),
    )
    op.create_index("ix_file_metadata_search", "file_metadata", ["tenant_id", "name", "value", "file_id"], unique=False)
    on_postgres = op.get_bind().dialect.name == "postgresql"
    for number, (event, row, condition, change) in enumerate(_CHANGES, 1):
        make = _postgres_trigger if on_postgres else _sqlite_trigger
        for statement in make(f"files_searched_{number}", event, row, condition, change):
            op.execute(statement)
    pairs = _PAIRS_POSTGRES if on_postgres else _PAIRS_SQLITE
    has_pairs = "CAST(files.metadata AS text) <> '{}' AND files.state = 'stored'"
    # PostgreSQL has no text with an escaped NUL.
    readable = r" AND files.metadata::text NOT LIKE '%\\u0000%'"
    stored = f"(SELECT * FROM files WHERE {has_pairs}{readable if on_postgres else ''}) AS files, "  # noqa: S608
    op.execute(pairs.format(row="files", source=stored))
    _create_jobs()
    _create_usage(on_postgres=on_postgres)
    if on_postgres:
        for table in _TABLES:
            op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
            op.execute(f"CREATE POLICY its_tenant ON {table} USING ({_IN_SCOPE})")


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("tenant_id", _ID, nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("params", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=True),
        sa.Column("done", sa.BigInteger(), nullable=False),
        sa.Column("skipped", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.String(length=255), nullable=True),
        sa.Column("position", sa.String(length=255), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("actor_id", sa.String(length=255), nullable=False),
        sa.Column("actor_name", sa.String(length=255), nullable=False),
        sa.Column("via", sa.String(length=16), nullable=False),
        sa.Column("request_id", _ID, nullable=True),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("started_at", _MOMENT, nullable=True),
        sa.Column("ended_at", _MOMENT, nullable=True),
        sa.Column("due_at", _MOMENT, nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_jobs_tenant_id")),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_jobs")),
    )
    op.create_index("ix_jobs_listing", "jobs", ["tenant_id", "job_id"], unique=False)
    op.create_index("ix_jobs_by_state", "jobs", ["tenant_id", "state", "job_id"], unique=False)
    op.create_index(
        "ix_jobs_due", "jobs", ["due_at"], unique=False, sqlite_where=_HAS_NOT_ENDED, postgresql_where=_HAS_NOT_ENDED
    )


def _create_usage(*, on_postgres: bool) -> None:
    columns = (
        *(("day", sa.String(length=10)), ("context_key", sa.String(length=100)), ("kind", sa.String(length=80))),
    )
    op.create_table(
        "usage_days",
        sa.Column("tenant_id", _ID, nullable=False),
        *(sa.Column(name, of, nullable=False) for name, of in columns),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_usage_days_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "day", "context_key", "kind", name=op.f("pk_usage_days")),
    )
    op.create_table(
        "usage_deltas",
        sa.Column("delta_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), nullable=False),
        sa.Column("tenant_id", _ID, nullable=False),
        *(sa.Column(name, of, nullable=False) for name, of in columns),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("delta_id", name=op.f("pk_usage_deltas")),
    )
    op.create_index("ix_usage_deltas_listing", "usage_deltas", ["tenant_id", "day"], unique=False)
    day = _DAY["postgresql" if on_postgres else "sqlite"]
    for number, (table, event, when, (at, kind, size)) in enumerate(_COUNTED, 1):
        name = f"usage_counted_{number}"
        values = f"new.tenant_id, {day.format(at)}, new.context_key, {kind}, 1, {size}"
        targets = "tenant_id, day, context_key, kind, number, bytes"
        body = f"INSERT INTO usage_deltas ({targets}) VALUES ({values});"  # noqa: S608
        if on_postgres:
            op.execute(
                f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NULL; END $$"
            )
            body = f"EXECUTE FUNCTION {name}()"
        else:
            body = f"BEGIN {body} END"
        op.execute(f"CREATE TRIGGER {name} AFTER {event} ON {table} FOR EACH ROW WHEN ({when}) {body}")
    # What is known of the time before: files that are not purged yet, and decisions as long as they are kept.
    created = day.format("created_at")
    op.execute(
        "INSERT INTO usage_days (tenant_id, day, context_key, kind, number, bytes) "  # noqa: S608  (constants)
        f"SELECT tenant_id, {created}, context_key, 'upload', count(*), sum(size_bytes) FROM files "
        "WHERE state IN ('stored', 'deleted') GROUP BY 1, 2, 3"
    )
    op.execute(
        "INSERT INTO usage_days (tenant_id, day, context_key, kind, number, bytes) "  # noqa: S608  (constants)
        f"SELECT tenant_id, {created}, context_key, 'rejected:' || reason, count(*), 0 FROM decisions "
        "WHERE outcome = 'rejected' AND reason IS NOT NULL GROUP BY 1, 2, 3, 4"
    )


def _postgres_trigger(name: str, event: str, row: str, condition: str, change: str) -> list[str]:
    # Escaped letters that are no text in PostgreSQL, such as the NUL: such metadata is not searched, and no upload
    # fails for it.
    body = (
        f"BEGIN {_PAIRS_POSTGRES.format(row=row, source='')}; EXCEPTION WHEN data_exception THEN NULL; END;"
        if change == "came"
        else f"DELETE FROM file_metadata WHERE file_id = {row}.file_id;"  # noqa: S608  (constants)
    )
    when = f"{condition} AND {row}.metadata::text <> '{{}}'"
    return [
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NULL; END $$",
        f"CREATE TRIGGER {name} AFTER {event} ON files FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION {name}()",
    ]


def _sqlite_trigger(name: str, event: str, row: str, condition: str, change: str) -> list[str]:
    body = (
        f"{_PAIRS_SQLITE.format(row=row, source='')};"
        if change == "came"
        else f"DELETE FROM file_metadata WHERE file_id = {row}.file_id;"  # noqa: S608  (constants)
    )
    when = f"{condition} AND {row}.metadata <> '{{}}'"
    return [f"CREATE TRIGGER {name} AFTER {event} ON files FOR EACH ROW WHEN {when} BEGIN {body} END"]
