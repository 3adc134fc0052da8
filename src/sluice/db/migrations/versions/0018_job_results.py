"""What jobs found besides their numbers.

Only expands: the release before writes no result.
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("result", sa.JSON(none_as_null=True), nullable=True))
