"""What changed, with values; which groups of rejections were looked at; how many uploads a day were put into
quarantine or left undecided; an index of rejections.

Only expands: the release before neither reads nor writes what is added. A change that it makes meanwhile has its entry
in the audit log, without values.
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_ID = sa.String(length=64)
# As in step 0007
_IN_SCOPE = (
    "CASE WHEN current_setting('sluice.everybody', true) = 'on' THEN true "
    "ELSE tenant_id = current_setting('sluice.tenant', true) END"
)
_REFUSED = "the audit trail is append-only"
# Already shown before this step: who changed a context, and when.
_OF_CONTEXTS = "('context.created', 'context.changed', 'context.held', 'context.unheld')"
# As in step 0016
_DAY = {"postgresql": "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD')", "sqlite": "substr({}, 1, 10)"}
_OUTCOMES = "outcome IN ('quarantined', 'undecided')"


def upgrade() -> None:
    op.create_table(
        "audit_changes",
        sa.Column("event_id", _ID, nullable=False),
        sa.Column("tenant_id", _ID, nullable=False),
        sa.Column("target", sa.String(length=255), nullable=False),
        sa.Column("changes", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_audit_changes")),
    )
    op.create_index("ix_audit_changes_by_target", "audit_changes", ["tenant_id", "target", "event_id"], unique=False)
    op.execute(
        "INSERT INTO audit_changes (event_id, tenant_id, target, changes) "  # noqa: S608  (constants)
        "SELECT event_id, tenant_id, target, '{}' FROM audit_events "
        f"WHERE action IN {_OF_CONTEXTS} AND outcome = 'done' AND target IS NOT NULL"
    )
    op.create_table(
        "rejection_marks",
        sa.Column("tenant_id", _ID, nullable=False),
        sa.Column("group_id", _ID, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("report_id", _ID, nullable=False),
        sa.Column("event_id", _ID, nullable=False),
        sa.Column("marked_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "group_id", name=op.f("pk_rejection_marks")),
    )
    dialect = op.get_bind().dialect.name
    day = _DAY[dialect].format("{}created_at")
    values = f"new.tenant_id, {day.format('new.')}, new.context_key, new.outcome, 1, 0"
    columns = "tenant_id, day, context_key, kind, number, bytes"
    body = f"INSERT INTO usage_deltas ({columns}) VALUES ({values});"  # noqa: S608
    when = f"new.{_OUTCOMES} AND new.mode <> 'rescan'"
    if dialect == "postgresql":
        for table in ("audit_changes", "rejection_marks"):
            op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
            op.execute(f"CREATE POLICY its_tenant ON {table} USING ({_IN_SCOPE})")
        op.execute(
            "CREATE FUNCTION audit_changes_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{_REFUSED}'; END $$"
        )
        refuse = "FOR EACH ROW EXECUTE FUNCTION audit_changes_append_only()"
        op.execute(
            f"CREATE FUNCTION usage_counted_4() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NULL; END $$"
        )
        count = "EXECUTE FUNCTION usage_counted_4()"
    else:
        refuse = f"BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END"
        count = f"BEGIN {body} END"
    op.execute(f"CREATE TRIGGER audit_changes_append_only BEFORE UPDATE ON audit_changes {refuse}")
    op.execute(f"CREATE TRIGGER usage_counted_4 AFTER INSERT ON decisions FOR EACH ROW WHEN ({when}) {count}")
    # Of rejections, which are few beside accepted uploads: their list costs the same however many of those there are.
    failed = sa.text("outcome <> 'accepted'")
    op.create_index(
        "ix_decisions_by_outcome",
        "decisions",
        ["tenant_id", "outcome", "report_id"],
        unique=False,
        sqlite_where=failed,
        postgresql_where=failed,
    )
    # What is known of the time before, as long as decisions are kept.
    op.execute(
        "INSERT INTO usage_days (tenant_id, day, context_key, kind, number, bytes) "  # noqa: S608  (constants)
        f"SELECT tenant_id, {day.format('')}, context_key, outcome, count(*), 0 FROM decisions "
        f"WHERE {_OUTCOMES} AND mode <> 'rescan' GROUP BY 1, 2, 3, 4"
    )
