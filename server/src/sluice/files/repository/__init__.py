"""All queries of the `files` table, but for the two statements on the path of every upload (`uploads.sql_*`).

Which state changes exist is in `files.lifecycle`; `changes` writes them. What requests may see is in `files.service`.
"""
# ruff: noqa: F403  (the one door to the queries of this package; callers do not care in which module each is)

from sluice.files.repository.changes import *
from sluice.files.repository.due import *
from sluice.files.repository.holds import *
from sluice.files.repository.quarantine import *
from sluice.files.repository.reading import *
from sluice.files.repository.rows import *
