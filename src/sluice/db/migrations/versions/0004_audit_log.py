"""The audit log, append-only. Only expands: the release before does not look at it."""

import sqlalchemy as sa
from alembic import op

from sluice.db.sql import Moment

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_REFUSE_ON_SQLITE = """
CREATE TRIGGER audit_events_append_only BEFORE UPDATE ON audit_events
BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END
"""
_REFUSE_ON_POSTGRESQL = """
CREATE FUNCTION audit_events_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the audit trail is append-only'; END $$
"""
_TRIGGER_ON_POSTGRESQL = """
CREATE TRIGGER audit_events_append_only BEFORE UPDATE ON audit_events
FOR EACH ROW EXECUTE FUNCTION audit_events_append_only()
"""


def upgrade() -> None:
    op.create_table(
        "audit_events",
        sa.Column("event_id", sa.String(length=64), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("actor_id", sa.String(length=255), nullable=False),
        sa.Column("actor_name", sa.String(length=255), nullable=False),
        sa.Column("via", sa.String(length=16), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("target", sa.String(length=255), nullable=True),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("error", sa.String(length=64), nullable=True),
        sa.Column("request_id", sa.String(length=64), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_audit_events_tenant_id")),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_audit_events")),
    )
    op.create_index("ix_audit_events_listing", "audit_events", ["tenant_id", "event_id"], unique=False)
    op.create_index("ix_audit_events_age", "audit_events", ["created_at"], unique=False)
    if op.get_bind().dialect.name == "sqlite":
        op.execute(_REFUSE_ON_SQLITE)
    else:
        op.execute(_REFUSE_ON_POSTGRESQL)
        op.execute(_TRIGGER_ON_POSTGRESQL)
