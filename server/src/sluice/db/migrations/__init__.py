"""Migration steps of existing databases, oldest first in `versions`; run by `db.migrate`."""
