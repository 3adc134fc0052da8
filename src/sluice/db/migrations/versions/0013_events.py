"""The outbox of events, their numbers, webhook endpoints and deliveries, and what is remembered to announce each once.

Only expands: the release before neither reads nor writes what is added. What it does has no events.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import text

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_ID = sa.String(length=64)
_MOMENT = sa.DateTime(timezone=True)
_NUMBERED = text("sequence IS NOT NULL")
_UNNUMBERED = text("sequence IS NULL")
_IS_PENDING = text("state = 'pending'")
_TABLES = (
    "events",
    "event_counters",
    "webhook_endpoints",
    "webhook_deliveries",
    "event_levels",
    "bucket_outages",
)
# As in step 0007
_IN_SCOPE = (
    "CASE WHEN current_setting('sluice.everybody', true) = 'on' THEN true "
    "ELSE tenant_id = current_setting('sluice.tenant', true) END"
)


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("event_id", _ID, nullable=False),
        sa.Column("tenant_id", _ID, nullable=False),
        sa.Column("type", sa.String(length=64), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("data", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_events")),
    )
    for name, columns, where in (
        ("ix_events_unnumbered", ["tenant_id", "event_id"], _UNNUMBERED),
        ("ix_events_feed", ["tenant_id", "sequence"], _NUMBERED),
        ("ix_events_by_type", ["tenant_id", "type", "sequence"], _NUMBERED),
    ):
        op.create_index(
            name, "events", columns, unique=name == "ix_events_feed", sqlite_where=where, postgresql_where=where
        )
    op.create_table(
        "event_counters",
        sa.Column("tenant_id", _ID, nullable=False),
        sa.Column("last_sequence", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_event_counters_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("pk_event_counters")),
    )
    _create_webhooks()
    op.create_table(
        "event_levels",
        sa.Column("tenant_id", _ID, nullable=False),
        sa.Column("subject_type", sa.String(length=16), nullable=False),
        sa.Column("subject_id", _ID, nullable=False),
        sa.Column("level", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_event_levels_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "subject_type", "subject_id", name=op.f("pk_event_levels")),
    )
    op.create_table(
        "bucket_outages",
        sa.Column("config_id", _ID, nullable=False),
        sa.Column("tenant_id", _ID, nullable=False),
        sa.Column("failing_since", _MOMENT, nullable=False),
        sa.Column("announced_at", _MOMENT, nullable=True),
        sa.Column("working_since", _MOMENT, nullable=True),
        sa.Column("check_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id", "config_id"],
            ["storage_configs.tenant_id", "storage_configs.config_id"],
            name=op.f("fk_bucket_outages_tenant_id_config_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("config_id", name=op.f("pk_bucket_outages")),
    )
    if op.get_bind().dialect.name == "postgresql":
        for table in _TABLES:
            op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
            op.execute(f"CREATE POLICY its_tenant ON {table} USING ({_IN_SCOPE})")


def _create_webhooks() -> None:
    op.create_table(
        "webhook_endpoints",
        sa.Column("endpoint_id", _ID, nullable=False),
        sa.Column("tenant_id", _ID, nullable=False),
        sa.Column("url", sa.String(length=2000), nullable=False),
        sa.Column("event_types", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("context_keys", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("disabled_reason", sa.String(length=16), nullable=True),
        sa.Column("secret_sealed", sa.String(), nullable=False),
        sa.Column("old_secret_sealed", sa.String(), nullable=True),
        sa.Column("old_secret_until", _MOMENT, nullable=True),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("updated_at", _MOMENT, nullable=True),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("failing_since", _MOMENT, nullable=True),
        sa.Column("lease_until", _MOMENT, nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_webhook_endpoints_tenant_id")),
        sa.PrimaryKeyConstraint("endpoint_id", name=op.f("pk_webhook_endpoints")),
    )
    op.create_index("ix_webhook_endpoints_listing", "webhook_endpoints", ["tenant_id", "endpoint_id"], unique=False)
    op.create_table(
        "webhook_deliveries",
        sa.Column("delivery_id", _ID, nullable=False),
        sa.Column("tenant_id", _ID, nullable=False),
        sa.Column("endpoint_id", _ID, nullable=False),
        sa.Column("event_id", _ID, nullable=False),
        sa.Column("event_type", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", _MOMENT, nullable=True),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("attempted_at", _MOMENT, nullable=True),
        sa.Column("response_status", sa.Integer(), nullable=True),
        sa.Column("response_headers", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("response_body", sa.String(length=2048), nullable=True),
        sa.Column("error", sa.String(length=255), nullable=True),
        sa.Column("duration_ms", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("delivery_id", name=op.f("pk_webhook_deliveries")),
        sa.UniqueConstraint("endpoint_id", "event_id", name=op.f("uq_webhook_deliveries_endpoint_id_event_id")),
    )
    for name, columns, where in (
        ("ix_webhook_deliveries_listing", ["tenant_id", "endpoint_id", "delivery_id"], None),
        ("ix_webhook_deliveries_by_state", ["tenant_id", "endpoint_id", "state", "delivery_id"], None),
        ("ix_webhook_deliveries_due", ["endpoint_id", "due_at"], _IS_PENDING),
    ):
        op.create_index(name, "webhook_deliveries", columns, unique=False, sqlite_where=where, postgresql_where=where)
