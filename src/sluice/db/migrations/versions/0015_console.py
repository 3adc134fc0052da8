"""Sessions of the console, and the one-time links that begin them.

Only expands: the release before neither reads nor writes what is added.
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_ID = sa.String(length=64)
_MOMENT = sa.DateTime(timezone=True)
_TABLES = ("console_links", "console_sessions")
# As in step 0007
_IN_SCOPE = (
    "CASE WHEN current_setting('sluice.everybody', true) = 'on' THEN true "
    "ELSE tenant_id = current_setting('sluice.tenant', true) END"
)


def upgrade() -> None:
    op.create_table(
        "console_links",
        sa.Column("link_id", _ID, nullable=False),
        *_user_columns(),
        sa.Column("browser_hash", sa.LargeBinary(length=32), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_console_links_tenant_id")),
        sa.PrimaryKeyConstraint("link_id", name=op.f("pk_console_links")),
    )
    op.create_index("ix_console_links_age", "console_links", ["expires_at"], unique=False)
    op.create_table(
        "console_sessions",
        sa.Column("session_id", _ID, nullable=False),
        *_user_columns(),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_console_sessions_tenant_id")),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_console_sessions")),
    )
    op.create_index("ix_console_sessions_age", "console_sessions", ["expires_at"], unique=False)
    if op.get_bind().dialect.name == "postgresql":
        for table in _TABLES:
            op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
            op.execute(f"CREATE POLICY its_tenant ON {table} USING ({_IN_SCOPE})")


def _user_columns() -> list[sa.Column[object]]:
    return [
        sa.Column("tenant_id", _ID, nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("user_name", sa.String(length=255), nullable=False),
        sa.Column("scopes", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=False),
    ]
