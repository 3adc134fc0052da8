"""Alembic's entry: runs the steps on the connection that `db.migrate` hands over. Not run by the alembic command."""

from alembic import context

from sluice.db.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
