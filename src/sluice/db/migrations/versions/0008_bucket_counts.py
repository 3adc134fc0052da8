"""Counts of the files in each bucket, kept by triggers as those of the lists are.

Only expands: the workers of the release before fold these deltas as they fold all others, since each names its list and
its facets. While it runs, on 10 million files for some seconds, nobody can upload.
"""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_CAME, _LEFT = "new.storage_config_id IS NOT NULL", "old.storage_config_id IS NOT NULL"
_MOVED = "old.state = 'stored' AND new.state = 'stored' AND old.storage_config_id {differs} new.storage_config_id"
_EVENTS = (
    ("INSERT", f"new.state = 'stored' AND {_CAME}", 1),
    ("UPDATE OF state", f"old.state <> 'stored' AND new.state = 'stored' AND {_CAME}", 1),
    ("UPDATE OF state", f"old.state = 'stored' AND new.state <> 'stored' AND {_LEFT}", -1),
    ("UPDATE OF storage_config_id", f"{_MOVED} AND {_CAME}", 1),
    ("UPDATE OF storage_config_id", f"{_MOVED} AND {_LEFT}", -1),
    ("DELETE", f"old.state = 'stored' AND {_LEFT}", -1),
)


def upgrade() -> None:
    on_postgres = op.get_bind().dialect.name == "postgresql"
    # First the triggers: on PostgreSQL they wait for whoever writes at this moment, so that the count below sees all
    # others.
    for number, (event, condition, change) in enumerate(_EVENTS, 1):
        name, row = f"files_in_buckets_{number}", "new" if change > 0 else "old"
        body = (
            f"INSERT INTO count_deltas (tenant_id, list, facet_1, facet_2, change) "  # noqa: S608  (constants)
            f"VALUES ({row}.tenant_id, 'bucket_files', {row}.storage_config_id, '', {change});"
        )
        when = condition.format(differs="IS DISTINCT FROM" if on_postgres else "IS NOT")
        if on_postgres:
            op.execute(
                f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NULL; END $$"
            )
            op.execute(
                f"CREATE TRIGGER {name} AFTER {event} ON files FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION {name}()"
            )
        else:
            op.execute(f"CREATE TRIGGER {name} AFTER {event} ON files FOR EACH ROW WHEN {when} BEGIN {body} END")
    for facet, group in (("storage_config_id", ", storage_config_id"), ("''", "")):
        op.execute(
            f"INSERT INTO row_counts (tenant_id, list, facet_1, facet_2, rows) "  # noqa: S608  (constants)
            f"SELECT tenant_id, 'bucket_files', {facet}, '', count(*) FROM files "
            f"WHERE state = 'stored' AND storage_config_id IS NOT NULL GROUP BY tenant_id{group}"
        )
