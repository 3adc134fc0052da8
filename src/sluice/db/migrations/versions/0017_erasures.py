"""Erasures: the list of what each did with the files of a person, and the one change of audit entries that they make.

Only expands: the release before neither reads nor writes the list, and changes no entry.
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_ID = sa.String(length=64)
# As in step 0007
_IN_SCOPE = (
    "CASE WHEN current_setting('sluice.everybody', true) = 'on' THEN true "
    "ELSE tenant_id = current_setting('sluice.tenant', true) END"
)
_KEPT = ("event_id", "tenant_id", "via", "action", "outcome", "error", "request_id", "created_at")
_NAMES = ("actor_id", "actor_name", "target", "reason")
_SAME = {"sqlite": "new.{0} IS old.{0}", "postgresql": "new.{0} IS NOT DISTINCT FROM old.{0}"}
_REFUSED = "the audit trail is append-only"
_DELTAS = "".join(
    "INSERT INTO count_deltas (tenant_id, list, facet_1, facet_2, change) "  # noqa: S608  (constants)
    f"VALUES ({row}.tenant_id, 'audit_events', {row}.actor_id, {row}.action, {change}); "
    for row, change in (("old", -1), ("new", 1))
)


def upgrade() -> None:
    op.create_table(
        "erased_files",
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("file_id", _ID, nullable=False),
        sa.Column("tenant_id", _ID, nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "file_id", name=op.f("pk_erased_files")),
    )
    dialect = op.get_bind().dialect.name
    same = _SAME[dialect]
    kept = [same.format(name) for name in _KEPT]
    erased = [f"({same.format(name)} OR new.{name} = 'erased')" for name in _NAMES]
    allowed = " AND ".join([*kept, *erased])
    if dialect == "postgresql":
        op.execute("ALTER TABLE erased_files ENABLE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY its_tenant ON erased_files USING ({_IN_SCOPE})")
        op.execute(
            "CREATE OR REPLACE FUNCTION audit_events_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN IF {allowed} THEN RETURN new; END IF; RAISE EXCEPTION '{_REFUSED}'; END $$"
        )
        op.execute(
            "CREATE FUNCTION audit_events_counted_3() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN {_DELTAS} RETURN NULL; END $$"
        )
        body = "EXECUTE FUNCTION audit_events_counted_3()"
    else:
        op.execute("DROP TRIGGER audit_events_append_only")
        op.execute(
            "CREATE TRIGGER audit_events_append_only BEFORE UPDATE ON audit_events "
            f"WHEN NOT ({allowed}) BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END"
        )
        body = f"BEGIN {_DELTAS} END"
    op.execute(
        "CREATE TRIGGER audit_events_counted_3 AFTER UPDATE OF actor_id ON audit_events "
        f"FOR EACH ROW WHEN (old.actor_id <> new.actor_id) {body}"
    )
