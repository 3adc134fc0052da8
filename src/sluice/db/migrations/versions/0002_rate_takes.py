"""Rate limits in the database: a row per take. Only expands: the release before does not look at it."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rate_takes",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("taken_us", sa.BigInteger(), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("key", "taken_us", "token", name=op.f("pk_rate_takes")),
    )
    op.create_index("ix_rate_takes_age", "rate_takes", ["taken_us"], unique=False)
