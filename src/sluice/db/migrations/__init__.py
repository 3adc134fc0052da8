"""Schema migrations, oldest first in `versions`; run by `db.migrate`."""
