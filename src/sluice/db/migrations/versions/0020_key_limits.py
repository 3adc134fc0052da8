"""Limits of API keys, and the text that a key had before it was rotated.

Only expands: the release before neither reads nor writes what is added. It asks `presented_key` and `presented_token`,
which stay as they are; this one asks functions of its own. A later step that adds a column of a key or a token that its
presentation needs makes new ones again.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import text

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

# As in step 0007: the tenant of a key is unknown until the key is found.
_PRESENTED_KEY = """
CREATE FUNCTION {schema}.presented_api_key(presented text) RETURNS TABLE (
    api_key_id varchar, tenant_id varchar, secret_hash bytea, key_prefix varchar, mode varchar, name varchar,
    scopes json, status varchar, metadata json, created_at timestamptz, updated_at timestamptz,
    expires_at timestamptz, last_used_at timestamptz, context_keys json, allowed_networks json, rate_per_minute integer,
    tenant_status varchar
) LANGUAGE plpgsql STABLE ROWS 1 SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT k.api_key_id, k.tenant_id,
        CASE k.key_prefix WHEN presented THEN k.secret_hash ELSE k.previous_secret_hash END,
        k.key_prefix, k.mode, k.name, k.scopes, k.status, k.metadata, k.created_at, k.updated_at,
        CASE k.key_prefix WHEN presented THEN k.expires_at ELSE k.previous_expires_at END,
        k.last_used_at, k.context_keys, k.allowed_networks, k.rate_per_minute, t.status
    FROM {schema}.api_keys k JOIN {schema}.tenants t ON t.tenant_id = k.tenant_id
    WHERE k.key_prefix = presented OR k.previous_prefix = presented;
END
$$
"""
_PRESENTED_BY_SENDERS = """
CREATE FUNCTION {schema}.presented_upload_token(presented text) RETURNS TABLE (
    token_id varchar, tenant_id varchar, secret_hash bytea, token_prefix varchar, mode varchar, context_key varchar,
    max_files integer, max_file_size_bytes bigint, allowed_extensions json, allowed_origins json, methods json,
    end_user varchar, metadata json, redirect_ok varchar, redirect_error varchar, files_claimed integer,
    attempts integer, created_by varchar, created_at timestamptz, expires_at timestamptz, revoked_at timestamptz,
    tenant_status varchar, key_contexts json, key_rate_per_minute integer
) LANGUAGE plpgsql STABLE ROWS 1 SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT u.token_id, u.tenant_id, u.secret_hash, u.token_prefix, u.mode, u.context_key, u.max_files,
        u.max_file_size_bytes, u.allowed_extensions, u.allowed_origins, u.methods, u.end_user, u.metadata,
        u.redirect_ok, u.redirect_error, u.files_claimed, u.attempts, u.created_by, u.created_at, u.expires_at,
        u.revoked_at, t.status, k.context_keys, k.rate_per_minute
    FROM {schema}.upload_tokens u
    JOIN {schema}.tenants t ON t.tenant_id = u.tenant_id
    LEFT JOIN {schema}.api_keys k ON k.tenant_id = u.tenant_id AND k.api_key_id = u.created_by
    WHERE u.token_prefix = presented;
END
$$
"""


def upgrade() -> None:
    for column in (
        sa.Column("context_keys", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("allowed_networks", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("rate_per_minute", sa.Integer(), nullable=True),
        sa.Column("previous_prefix", sa.String(length=64), nullable=True),
        sa.Column("previous_secret_hash", sa.LargeBinary(length=32), nullable=True),
        sa.Column("previous_expires_at", sa.DateTime(timezone=True), nullable=True),
    ):
        op.add_column("api_keys", column)
    op.create_index("ix_api_keys_previous", "api_keys", ["previous_prefix"], unique=False)
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    schema = connection.execute(text("SELECT quote_ident(current_schema())")).scalar_one()
    for name, function in (("presented_api_key", _PRESENTED_KEY), ("presented_upload_token", _PRESENTED_BY_SENDERS)):
        op.execute(text(function.format(schema=schema).replace(":", "\\:")))
        op.execute(f"REVOKE ALL ON FUNCTION {schema}.{name}(text) FROM PUBLIC")
