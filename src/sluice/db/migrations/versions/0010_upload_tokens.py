"""Upload tokens, the files that they store, and the origins whose pages may call the API.

Only expands: the release before neither reads nor writes what is added, and stores no file with a token.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import text

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_ID = sa.String(length=64)
_MOMENT = sa.DateTime(timezone=True)
_OF_TOKEN = text("substr(actor_id, 1, 4) = 'utk_'")
_TABLES = ("upload_tokens", "cors_origins")
# As in step 0007
_IN_SCOPE = (
    "CASE WHEN current_setting('sluice.everybody', true) = 'on' THEN true "
    "ELSE tenant_id = current_setting('sluice.tenant', true) END"
)
# As for keys, the tenant of a token is unknown until the token is found.
_FIND_PRESENTED = """
CREATE FUNCTION {schema}.presented_token(presented text) RETURNS TABLE (
    token_id varchar, tenant_id varchar, secret_hash bytea, token_prefix varchar, mode varchar, context_key varchar,
    max_files integer, max_file_size_bytes bigint, allowed_extensions json, allowed_origins json, methods json,
    end_user varchar, metadata json, redirect_ok varchar, redirect_error varchar, files_claimed integer,
    attempts integer, created_by varchar, created_at timestamptz, expires_at timestamptz, revoked_at timestamptz,
    tenant_status varchar
) LANGUAGE plpgsql STABLE ROWS 1 SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT u.token_id, u.tenant_id, u.secret_hash, u.token_prefix, u.mode, u.context_key, u.max_files,
        u.max_file_size_bytes, u.allowed_extensions, u.allowed_origins, u.methods, u.end_user, u.metadata,
        u.redirect_ok, u.redirect_error, u.files_claimed, u.attempts, u.created_by, u.created_at, u.expires_at,
        u.revoked_at, t.status
    FROM {schema}.upload_tokens u JOIN {schema}.tenants t ON t.tenant_id = u.tenant_id WHERE u.token_prefix = presented;
END
$$
"""


def upgrade() -> None:
    op.create_table(
        "upload_tokens",
        sa.Column("token_id", _ID, nullable=False),
        sa.Column("tenant_id", _ID, nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("token_prefix", sa.String(length=64), nullable=False),
        sa.Column("mode", sa.String(length=8), nullable=False),
        sa.Column("context_key", sa.String(length=100), nullable=False),
        sa.Column("max_files", sa.Integer(), nullable=False),
        sa.Column("max_file_size_bytes", sa.BigInteger(), nullable=True),
        *(
            sa.Column(name, sa.JSON(none_as_null=True), nullable=False)
            for name in ("allowed_extensions", "allowed_origins", "methods")
        ),
        sa.Column("end_user", sa.String(length=255), nullable=True),
        sa.Column("metadata", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("redirect_ok", sa.String(length=2000), nullable=True),
        sa.Column("redirect_error", sa.String(length=2000), nullable=True),
        sa.Column("files_claimed", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("created_by", sa.String(length=255), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=False),
        sa.Column("revoked_at", _MOMENT, nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_upload_tokens_tenant_id")),
        sa.PrimaryKeyConstraint("token_id", name=op.f("pk_upload_tokens")),
        sa.UniqueConstraint("token_prefix", name=op.f("uq_upload_tokens_token_prefix")),
    )
    op.create_index("ix_upload_tokens_listing", "upload_tokens", ["tenant_id", "token_id"], unique=False)
    op.create_index("ix_upload_tokens_age", "upload_tokens", ["expires_at"], unique=False)
    op.create_table(
        "cors_origins",
        sa.Column("tenant_id", _ID, nullable=False),
        sa.Column("token_id", _ID, nullable=False),
        sa.Column("origin", sa.String(length=255), nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_cors_origins_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "token_id", "origin", name=op.f("pk_cors_origins")),
    )
    op.create_index("ix_cors_origins_by_origin", "cors_origins", ["origin", "expires_at"], unique=False)
    op.add_column("files", sa.Column("upload_token_id", _ID, nullable=True))
    op.create_index(
        "ix_decisions_by_token",
        "decisions",
        ["tenant_id", "actor_id", "report_id"],
        unique=False,
        sqlite_where=_OF_TOKEN,
        postgresql_where=_OF_TOKEN,
    )
    _set_row_security()


def _set_row_security() -> None:
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    for table in _TABLES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY its_tenant ON {table} USING ({_IN_SCOPE})")
    schema = connection.execute(text("SELECT quote_ident(current_schema())")).scalar_one()
    op.execute(text(_FIND_PRESENTED.format(schema=schema).replace(":", "\\:")))
    op.execute(f"REVOKE ALL ON FUNCTION {schema}.presented_token(text) FROM PUBLIC")
