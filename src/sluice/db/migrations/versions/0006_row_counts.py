"""Counts of the lists, kept by triggers, and an index for every filter.

Only expands: the release before neither reads nor writes the counts, the triggers count for it too, and its queries
find new indexes under the names of the old. While it runs, on 10 million files for about a minute, nobody can upload.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# The columns by which each list may be filtered. Files are listed while they are `stored`, the others while they exist.
_LISTS = {"files": ("context_key", "uploaded_by"), "contexts": ("status", None), "audit_events": ("actor_id", "action")}
_STORED_ONLY = {"files": "{}.state = 'stored'"}
_EVERY_ROW = "1 = 1"
# Which changes of a row move it from count to count; its other counted columns never change.
_MOVES = {
    "files": [
        ("UPDATE OF state", "old.state <> 'stored' AND new.state = 'stored'", "{came}"),
        ("UPDATE OF state", "old.state = 'stored' AND new.state <> 'stored'", "{left}"),
    ],
    "contexts": [("UPDATE OF status", "old.status <> new.status", "{left} {came}")],
    "audit_events": [],
}
_STORED = {"tenant_id, file_id": "listing", "tenant_id, context_key, file_id": "by_context"} | {
    "tenant_id, uploaded_by, file_id": "by_uploader",
    "tenant_id, context_key, uploaded_by, file_id": "by_both",
}


def upgrade() -> None:
    _create_tables()
    on_postgres = op.get_bind().dialect.name == "postgresql"
    for table in _LISTS:
        # First the triggers: on PostgreSQL they wait for whoever writes at this moment, so that the count below sees
        # all others.
        for trigger in _triggers(table, on_postgres=on_postgres):
            op.execute(trigger)
        op.execute(_count(table))
    _roll_up()
    _create_indexes()
    if on_postgres:
        # Rows are indexed without being looked at only where a vacuum has been, and every upload leaves a dead row: not
        # after 20 % of millions.
        op.execute(
            "ALTER TABLE files SET "
            "(autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05)"
        )


def _create_tables() -> None:
    op.create_table(
        "row_counts",
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("list", sa.String(length=32), nullable=False),
        sa.Column("facet_1", sa.String(length=255), nullable=False),
        sa.Column("facet_2", sa.String(length=255), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_row_counts_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "list", "facet_1", "facet_2", name=op.f("pk_row_counts")),
    )
    op.create_table(
        "count_deltas",
        sa.Column("delta_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("list", sa.String(length=32), nullable=False),
        sa.Column("facet_1", sa.String(length=255), nullable=False),
        sa.Column("facet_2", sa.String(length=255), nullable=False),
        sa.Column("change", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("delta_id", name=op.f("pk_count_deltas")),
    )
    op.create_index("ix_count_deltas_listing", "count_deltas", ["tenant_id", "list"], unique=False)


def _triggers(table: str, *, on_postgres: bool) -> list[str]:
    """Return the triggers that add a delta for each row that comes onto the list or leaves it."""
    deltas = {"came": _delta(table, "new", 1), "left": _delta(table, "old", -1)}
    listed = _STORED_ONLY.get(table, _EVERY_ROW)
    events = [("INSERT", listed.format("new"), "{came}"), *_MOVES[table], ("DELETE", listed.format("old"), "{left}")]
    make = _postgres_trigger if on_postgres else _sqlite_trigger
    return [
        statement
        for number, (event, condition, body) in enumerate(events, 1)
        for statement in make(f"{table}_counted_{number}", table, event, condition, body.format(**deltas))
    ]


def _delta(table: str, row: str, change: int) -> str:
    facets = ", ".join("''" if column is None else f"{row}.{column}" for column in _LISTS[table])
    return (
        f"INSERT INTO count_deltas (tenant_id, list, facet_1, facet_2, change) "  # noqa: S608  (constants)
        f"VALUES ({row}.tenant_id, '{table}', {facets}, {change});"
    )


def _postgres_trigger(name: str, table: str, event: str, condition: str, body: str) -> list[str]:
    return [
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NULL; END $$",
        f"CREATE TRIGGER {name} AFTER {event} ON {table} FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION {name}()",
    ]


def _sqlite_trigger(name: str, table: str, event: str, condition: str, body: str) -> list[str]:
    return [f"CREATE TRIGGER {name} AFTER {event} ON {table} FOR EACH ROW WHEN {condition} BEGIN {body} END"]


def _count(table: str) -> str:
    facets = ", ".join(column or "''" for column in _LISTS[table])
    listed = _STORED_ONLY.get(table, _EVERY_ROW).format(table)
    return (
        f"INSERT INTO row_counts (tenant_id, list, facet_1, facet_2, rows) "  # noqa: S608  (constants)
        f"SELECT tenant_id, '{table}', {facets}, count(*) FROM {table} WHERE {listed} GROUP BY 1, 2, 3, 4"
    )


def _roll_up() -> None:
    """Sum the counts by both facets to those by either, and to those by none.

    A list with one facet has only the latter.
    """
    by_both = "facet_1 <> '' AND facet_2 <> ''"
    by_all = f"{by_both} OR list = 'contexts'"
    for facets, of in (("'', facet_2", by_both), ("facet_1, ''", by_both), ("'', ''", by_all)):
        op.execute(
            f"INSERT INTO row_counts (tenant_id, list, facet_1, facet_2, rows) "  # noqa: S608  (constants)
            f"SELECT tenant_id, list, {facets}, sum(rows) FROM row_counts WHERE {of} GROUP BY 1, 2, 3, 4"
        )


def _create_indexes() -> None:
    for name in ("listing", "by_context", "by_uploader", "leases", "due"):
        op.drop_index(f"ix_files_{name}", "files")
    for columns, name in _STORED.items():
        op.execute(f"CREATE INDEX ix_files_{name} ON files ({columns}, state) WHERE state = 'stored'")
    op.execute("CREATE INDEX ix_files_leases ON files (state, lease_until) WHERE lease_until IS NOT NULL")
    op.execute("CREATE INDEX ix_files_due ON files (state, due_at) WHERE due_at IS NOT NULL")
    op.create_index("ix_contexts_listing", "contexts", ["tenant_id", "context_id"], unique=False)
    op.create_index("ix_contexts_by_status", "contexts", ["tenant_id", "status", "context_id"], unique=False)
    op.create_index("ix_audit_events_by_actor", "audit_events", ["tenant_id", "actor_id", "event_id"], unique=False)
    op.create_index("ix_audit_events_by_action", "audit_events", ["tenant_id", "action", "event_id"], unique=False)
    op.create_index(
        "ix_audit_events_by_both", "audit_events", ["tenant_id", "actor_id", "action", "event_id"], unique=False
    )
