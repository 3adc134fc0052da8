"""Migration steps that tests write, chained behind those of the product.

The three that are here add a column to `files` that a trigger fills, fill it in existing rows, and drop it again.
"""

import shutil
from pathlib import Path

from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from sluice.db import migrate
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS

_STEP = """
from alembic import op
import sqlalchemy as sa

revision, down_revision, branch_labels, depends_on = "{revision}", "{before}", None, None

def upgrade():
    on_postgres = op.get_bind().dialect.name == "postgresql"
    {body}
"""
EXPAND = """
    op.add_column("files", sa.Column("lowered", sa.String(255), nullable=True))
    op.create_index("ix_files_lowered", "files", ["tenant_id", "lowered"])
    if on_postgres:
        op.execute("CREATE FUNCTION lower_name() RETURNS trigger LANGUAGE plpgsql AS $$ "
                   "BEGIN new.lowered := lower(new.original_filename); RETURN new; END $$")
        op.execute("CREATE TRIGGER lower_name BEFORE INSERT ON files FOR EACH ROW EXECUTE FUNCTION lower_name()")
    else:
        op.execute("CREATE TRIGGER lower_name AFTER INSERT ON files BEGIN "
                   "UPDATE files SET lowered = lower(new.original_filename) "
                   "WHERE file_id = new.file_id; END")
"""
FILL = """
    op.execute("UPDATE files SET lowered = lower(original_filename) WHERE lowered IS NULL")
"""
CONTRACT = """
    op.execute("DROP TRIGGER lower_name" + (" ON files" if on_postgres else ""))
    if on_postgres:
        op.execute("DROP FUNCTION lower_name()")
    op.drop_index("ix_files_lowered", "files")
    op.drop_column("files", "lowered")
"""


def write_steps(folder: Path, *bodies: str) -> list[str]:
    """Write the product's steps and these behind them into `folder`; return the revisions of these."""
    folder.mkdir()
    for step in migrate.STEPS.glob("*.py"):
        shutil.copy(step, folder)
    before = migrate.newest()
    revisions = [f"{int(before) + number:04}" for number in range(1, len(bodies) + 1)]
    for revision, body in zip(revisions, bodies, strict=True):
        (folder / f"{revision}_later.py").write_text(_STEP.format(revision=revision, before=before, body=body.strip()))
        before = revision
    return revisions


async def run_steps(database: Database, folder: Path, to: str) -> None:
    """Run the steps in `folder` that the database lacks up to the revision `to`."""

    config = migrate.alembic_config(folder)

    def run(connection: Connection) -> None:
        config.attributes["connection"] = connection
        command.upgrade(config, to)

    async with database.transaction(ALL_TENANTS) as connection:
        await connection.run_sync(run)


def all_steps(folder: Path) -> list[str]:
    """Return the revisions of the steps in `folder`, oldest first."""
    scripts = ScriptDirectory.from_config(migrate.alembic_config(folder))
    return [step.revision for step in reversed(list(scripts.walk_revisions()))]
