"""An index of deleted files, which the console lists and jobs restore.

Only expands: the release before neither reads nor writes what is added.
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_IS_DELETED = sa.text("state = 'deleted'")


def upgrade() -> None:
    op.create_index(
        "ix_files_deleted",
        "files",
        ["tenant_id", "file_id", "state"],
        postgresql_where=_IS_DELETED,
        sqlite_where=_IS_DELETED,
    )
