"""Idempotency keys of uploads, and by what a rejected upload that is sent again is found.

Only expands: the release before neither reads nor writes what is added.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_ID = sa.String(length=64)
_MOMENT = sa.DateTime(timezone=True)
_IS_REPEATABLE = sa.text("repeat_key IS NOT NULL")
# As in step 0007
_IN_SCOPE = (
    "CASE WHEN current_setting('sluice.everybody', true) = 'on' THEN true "
    "ELSE tenant_id = current_setting('sluice.tenant', true) END"
)


def upgrade() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant_id", _ID, nullable=False),
        sa.Column("key_hash", sa.String(length=64), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("report_id", _ID, nullable=False),
        sa.Column("file_id", _ID, nullable=True),
        sa.Column("lease_until", _MOMENT, nullable=True),
        sa.Column("expires_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_idempotency_keys_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "key_hash", name=op.f("pk_idempotency_keys")),
    )
    op.create_index("ix_idempotency_keys_age", "idempotency_keys", ["expires_at"], unique=False)
    op.add_column("decisions", sa.Column("repeat_key", sa.String(length=64), nullable=True))
    op.create_index(
        "ix_decisions_repeated",
        "decisions",
        ["tenant_id", "repeat_key", "report_id"],
        unique=False,
        sqlite_where=_IS_REPEATABLE,
        postgresql_where=_IS_REPEATABLE,
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY its_tenant ON idempotency_keys USING ({_IN_SCOPE})")
