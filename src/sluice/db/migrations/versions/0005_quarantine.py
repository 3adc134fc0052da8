"""What a file in quarantine was found to be, and an index of such files.

Only expands: the release before neither reads nor writes it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_IN_QUARANTINE = sa.text("quarantined_at IS NOT NULL")


def upgrade() -> None:
    op.add_column("files", sa.Column("threat", sa.String(length=256), nullable=True))
    op.create_index(
        "ix_files_quarantine",
        "files",
        ["file_id"],
        unique=False,
        sqlite_where=_IN_QUARANTINE,
        postgresql_where=_IN_QUARANTINE,
    )
