"""A migrated database on each engine."""

from tests.db.conftest import tables  # noqa: F401  (a fixture)
