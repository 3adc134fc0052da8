"""Policies and check modes of contexts; who sent what, and how long its verdict took, in the decision log.

Only expands: the release before neither reads nor writes what is added, and its rows get the defaults.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_HAS_REASON = sa.text("reason IS NOT NULL")
_IS_STORED = sa.text("state = 'stored'")


def upgrade() -> None:
    for name in ("check_modes", "policies"):
        op.add_column("contexts", sa.Column(name, sa.JSON(none_as_null=True), nullable=False, server_default="{}"))
    op.add_column("decisions", sa.Column("actor_id", sa.String(length=255), nullable=True))
    op.add_column("decisions", sa.Column("original_filename", sa.String(length=255), nullable=True))
    op.add_column("decisions", sa.Column("duration_ms", sa.Integer(), nullable=True))
    op.create_index("ix_decisions_by_context", "decisions", ["tenant_id", "context_key", "report_id"], unique=False)
    op.create_index(
        "ix_decisions_by_reason",
        "decisions",
        ["tenant_id", "reason", "report_id"],
        unique=False,
        sqlite_where=_HAS_REASON,
        postgresql_where=_HAS_REASON,
    )
    op.create_index(
        "ix_files_by_sha256",
        "files",
        ["tenant_id", "sha256", "context_key", "state"],
        unique=False,
        sqlite_where=_IS_STORED,
        postgresql_where=_IS_STORED,
    )
