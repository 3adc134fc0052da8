"""The last scan of each file, and the mark of quarantine.

Only expands: the release before neither reads nor writes them.
"""

import sqlalchemy as sa
from alembic import op

from sluice.db.sql import Moment

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_ENGINE = {"sqlite": "json_extract(d.engines, '$.{}')", "postgresql": "(d.engines ->> '{}')"}


def upgrade() -> None:
    op.add_column("files", sa.Column("scanned_with", sa.String(length=160), nullable=True))
    op.add_column("files", sa.Column("scanned_at", Moment(), nullable=True))
    op.add_column("files", sa.Column("rescan_at", Moment(), nullable=True))
    op.add_column("files", sa.Column("quarantined_at", Moment(), nullable=True))
    op.create_index("ix_files_verdicts", "files", ["state", "scanned_with", "scanned_at"], unique=False)
    read = _ENGINE[op.get_bind().dialect.name]
    engine, signatures = read.format("scanner"), read.format("signatures")
    # What was scanned before is in the decision log, where it was not yet too old to be kept.
    op.execute(
        f"UPDATE files SET scanned_with = {engine} || '/' || coalesce({signatures}, ''), "  # noqa: S608  (constants)
        "scanned_at = files.created_at "
        f"FROM decisions AS d WHERE d.report_id = files.report_id AND {engine} IS NOT NULL"
    )
