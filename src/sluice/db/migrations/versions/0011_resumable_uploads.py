"""Resumable uploads: their rows and their parts.

Only expands: the release before neither reads nor writes what is added.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_ID = sa.String(length=64)
_MOMENT = sa.DateTime(timezone=True)
_TABLES = ("resumable_uploads", "resumable_parts")
# As in step 0007
_IN_SCOPE = (
    "CASE WHEN current_setting('sluice.everybody', true) = 'on' THEN true "
    "ELSE tenant_id = current_setting('sluice.tenant', true) END"
)


def upgrade() -> None:
    op.create_table(
        "resumable_uploads",
        sa.Column("upload_id", _ID, nullable=False),
        sa.Column("tenant_id", _ID, nullable=False),
        sa.Column("actor_id", sa.String(length=255), nullable=False),
        sa.Column("via", sa.String(length=16), nullable=False),
        sa.Column("context_key", sa.String(length=100), nullable=False),
        sa.Column("filename", sa.String(length=255), nullable=False),
        sa.Column("metadata", sa.String(), nullable=True),
        sa.Column("sent_metadata", sa.String(), nullable=True),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("received", sa.BigInteger(), nullable=False),
        sa.Column("small_appends", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("report_id", _ID, nullable=True),
        sa.Column("file_id", _ID, nullable=True),
        sa.Column("judging_until", _MOMENT, nullable=True),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=False),
        sa.Column("due_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_resumable_uploads_tenant_id")),
        sa.PrimaryKeyConstraint("upload_id", name=op.f("pk_resumable_uploads")),
    )
    op.create_index("ix_resumable_uploads_by_state", "resumable_uploads", ["tenant_id", "state"], unique=False)
    op.create_index("ix_resumable_uploads_due", "resumable_uploads", ["due_at"], unique=False)
    op.create_table(
        "resumable_parts",
        sa.Column("upload_id", _ID, nullable=False),
        sa.Column("start_byte", sa.BigInteger(), nullable=False),
        sa.Column("tenant_id", _ID, nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("object_key", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_resumable_parts_tenant_id")),
        sa.PrimaryKeyConstraint("upload_id", "start_byte", name=op.f("pk_resumable_parts")),
    )
    if op.get_bind().dialect.name == "postgresql":
        for table in _TABLES:
            op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
            op.execute(f"CREATE POLICY its_tenant ON {table} USING ({_IN_SCOPE})")
