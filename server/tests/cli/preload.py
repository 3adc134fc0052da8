"""Loads, in the process from which servers and commands are forked, all that they would load themselves."""

import gc
import importlib

from sluice.cli.serve import load_server

load_server()
for _name in (
    "httpx",
    "sqlalchemy.dialects.postgresql.asyncpg",
    "sqlalchemy.dialects.sqlite.aiosqlite",
    "uvloop",
    "sluice.db.sqlite",
    "sluice.wiring.assembly",
    "sluice.worker.jobs.move_objects",
    "sluice.worker.jobs.store_audit",
):
    importlib.import_module(_name)
# What is loaded stays shared with the forked processes, whose collector does not look through it.
gc.collect()
gc.freeze()
