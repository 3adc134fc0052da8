"""The schema of the first release: that of a database which was created from the declaration (`db.migrate`).

The first migration step names this revision as the one before it. No database goes through it.
"""

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Refuse: a database without a revision is created, not migrated."""
    raise RuntimeError("a database without a revision is created from the declaration")
