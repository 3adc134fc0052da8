"""Retention, legal holds and restoring of files, reviews of files in quarantine, and reasons in the audit log.

Only expands: the release before reads and writes none of it. It does not know holds: while its servers and workers
run, they delete and purge held files. Holds, and reviews by two persons, are asked for at servers of this release only.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy import text

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    columns_of_contexts: list[sa.Column[Any]] = [
        sa.Column("retention_days", sa.Integer(), nullable=True),
        sa.Column("retention_starts", sa.String(length=16), nullable=False, server_default="stored"),
        sa.Column("retention_due_at", _MOMENT, nullable=True),
        sa.Column("retention_after", sa.String(length=64), nullable=True),
        *_hold_columns(),
    ]
    for column in columns_of_contexts:
        op.add_column("contexts", column)
    columns_of_files: list[sa.Column[Any]] = [
        sa.Column("review_decision", sa.String(length=16), nullable=True),
        sa.Column("reviewed_by", sa.String(length=255), nullable=True),
        sa.Column("reviewed_at", _MOMENT, nullable=True),
        sa.Column("restored_due_at", _MOMENT, nullable=True),
        *_hold_columns(),
    ]
    for column in columns_of_files:
        op.add_column("files", column)
    op.add_column("audit_events", sa.Column("reason", sa.String(length=1000), nullable=True))
    for name, table, columns, condition in (
        ("ix_contexts_retention", "contexts", ["retention_due_at"], "retention_due_at IS NOT NULL"),
        ("ix_files_review", "files", ["tenant_id", "file_id", "state"], "quarantined_at IS NOT NULL"),
        (
            "ix_files_rescans_asked",
            "files",
            ["rescan_at"],
            "quarantined_at IS NOT NULL AND rescan_at IS NOT NULL",
        ),
    ):
        where = text(condition)
        op.create_index(name, table, columns, unique=False, sqlite_where=where, postgresql_where=where)


def _hold_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("held_at", _MOMENT, nullable=True),
        sa.Column("held_by", sa.String(length=255), nullable=True),
        sa.Column("hold_reason", sa.String(length=1000), nullable=True),
    ]
