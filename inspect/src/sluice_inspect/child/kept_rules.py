"""The sources of the YARA rules that were compiled last: kept in the data folder for a start while theirs are broken.

Sources are kept, not compiled rules: the zygote trusts what it loads, so that only what was just compiled is loaded.
Each version is a folder called by its digest. Several processes may write and read at the same time.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_VERSIONS_MAX: Final = 2  # the one before is left for processes that are just compiling it


def keep(texts: Mapping[str, str], version: str, kept: Path) -> None:
    """Write the texts, by their paths, to the folder of their version, and remove older versions. Raise `OSError`."""
    target = kept / version
    kept.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not target.is_dir():
        unfinished = Path(tempfile.mkdtemp(prefix=".", dir=kept))
        try:
            for name, text in texts.items():
                path = unfinished / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8", newline="")
            unfinished.rename(target)
        except OSError as error:
            if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:  # another process has written it
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    os.utime(target)
    for older in kept_versions(kept)[_VERSIONS_MAX:]:
        shutil.rmtree(older, ignore_errors=True)


def kept_versions(kept: Path) -> Sequence[Path]:
    """Return the folders of the versions that are kept, the newest first."""
    found: list[tuple[int, Path]] = []
    for path in kept.glob("[!.]*"):
        with suppress(OSError):  # another process has just removed it
            found.append((path.stat().st_mtime_ns, path))
    return [path for _time, path in sorted(found, reverse=True)]
