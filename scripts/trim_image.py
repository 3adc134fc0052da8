"""Remove from the environment of the image what Sluice never reads: `/opt/sluice/bin/python trim_image.py`.

Half of what the wheels install are symbols for debuggers, tests of the libraries, descriptions of other services than
S3, and languages in which no sentence is. `make image` starts the result and lets it check a file of each format.
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from sluice.messages.locales import LOCALES

PACKAGES = Path(sysconfig.get_path("purelib"))
_LOAD = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
# Needed to compile against a library, or by type checkers.
SOURCES = {".a", ".c", ".cpp", ".h", ".pxd", ".pyi", ".pyx"}


def main() -> None:
    """Trim, and print how much is left."""
    languages = {"root", *(locale.partition("-")[0] for locale in LOCALES)}
    unread = [path for path in PACKAGES.glob("babel/locale-data/*.dat") if path.stem.partition("_")[0] not in languages]
    # Sluice signs with botocore and asks for no service of it; zstandard has two backends and takes the other one.
    unread += [path for path in PACKAGES.glob("botocore/data/*") if path.is_dir()]
    unread += PACKAGES.glob("zstandard/_cffi*.so")
    unread += PACKAGES.glob("olefile/olefile2.py")  # of Python 2: it cannot be compiled
    unread += [path for path in PACKAGES.rglob("*") if path.is_dir() and path.name in {"test", "tests", "__pycache__"}]
    unread += [path for path in PACKAGES.rglob("*") if path.suffix in SOURCES]
    for path in unread:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for path in [each for each in PACKAGES.rglob("*.so*") if each.is_file() and not each.is_symlink()]:
        # Of some libraries that auditwheel has changed, strip makes files that cannot be loaded: those stay as they are.
        stripped = path.with_name(f"{path.name}.stripped")
        subprocess.run(["strip", "--strip-unneeded", "-o", stripped, path], check=True)
        if (
            subprocess.run([sys.executable, "-c", _LOAD, stripped], stderr=subprocess.DEVNULL, check=False).returncode
            == 0
        ):
            stripped.replace(path)
        else:
            stripped.unlink()
    left = sum(path.stat().st_size for path in PACKAGES.rglob("*") if path.is_file())
    print(f"{PACKAGES}: {left / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
