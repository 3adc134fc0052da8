"""The database: engine options, the unit of work, tables, triggers, migrations.

The queries of a noun are in its `repository.py`.
"""
