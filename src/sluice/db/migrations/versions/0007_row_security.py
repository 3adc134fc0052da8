"""Row level security on PostgreSQL: a role that does not own the tables sees one tenant's rows at a time.

SQLite has none.

Only expands: the release before works as the owner, whom no policy binds. A later step that adds a column to `api_keys`
makes `presented_key` anew.
"""

from alembic import op
from sqlalchemy import text

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_TABLES = (
    "tenants",
    "storage_configs",
    "default_buckets",
    "contexts",
    "files",
    "api_keys",
    "plan_usage",
    "audit_events",
    "decisions",
    "row_counts",
    "count_deltas",
)
# Not `OR`: the planner would take it for a second, rarer condition beside the query's own tenant, and sort a tenant's
# files for one page.
_IN_SCOPE = (
    "CASE WHEN current_setting('sluice.everybody', true) = 'on' THEN true "
    "ELSE tenant_id = current_setting('sluice.tenant', true) END"
)
# The tenant of a key is unknown until the key is found, so this one query, for one whole prefix, runs as the owner.
_PRESENTED_KEY = """
CREATE FUNCTION {schema}.presented_key(presented text) RETURNS TABLE (
    api_key_id varchar, tenant_id varchar, secret_hash bytea, key_prefix varchar, mode varchar, name varchar,
    scopes json, status varchar, metadata json, created_at timestamptz, updated_at timestamptz,
    expires_at timestamptz, last_used_at timestamptz, tenant_status varchar
) LANGUAGE plpgsql STABLE ROWS 1 SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT k.api_key_id, k.tenant_id, k.secret_hash, k.key_prefix, k.mode, k.name, k.scopes, k.status,
        k.metadata, k.created_at, k.updated_at, k.expires_at, k.last_used_at, t.status
    FROM {schema}.api_keys k JOIN {schema}.tenants t ON t.tenant_id = k.tenant_id WHERE k.key_prefix = presented;
END
$$
"""


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    for table in _TABLES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY its_tenant ON {table} USING ({_IN_SCOPE})")
    schema = connection.execute(text("SELECT quote_ident(current_schema())")).scalar_one()
    op.execute(text(_PRESENTED_KEY.format(schema=schema).replace(":", "\\:")))
    op.execute(f"REVOKE ALL ON FUNCTION {schema}.presented_key(text) FROM PUBLIC")
