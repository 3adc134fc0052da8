"""The database: engine options, the unit of work, tables, migrations. Queries of a noun live in its `repository.py`."""
