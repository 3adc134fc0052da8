"""The database: engine options, the unit of work, tables, triggers, migrations. Queries of a noun live in its `repository.py`."""
