"""Remove from an unpacked Debian what an image of Sluice never uses: `python trim_base.py ROOT LOADED FOLDER…`.

ROOT keeps Python, certificates, time zones, a shell with a few commands, and the shared libraries that these and the
files in each FOLDER need, as their ELF headers say. LOADED lists the modules of Python whose bytecode stays. No package
manager, no Perl and no program that changes users is left: what broke in would find little. Packages that are gone are
gone from dpkg's status too, which scanners read. Raises `SystemExit` if a library is needed and missing.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

# `sleep` is for the hook before a stop in Kubernetes, `ldconfig` for Python's search for libraries.
_COMMANDS: Final = {
    "cat", "cp", "dash", "date", "df", "du", "env", "false", "head", "id", "ldconfig", "ls", "mkdir", "mv", "printf",
    "pwd", "rm", "sh", "sha256sum", "sleep", "stat", "tail", "touch", "true",
}  # fmt: skip
_PYTHON: Final = re.compile(r"python3?(\.\d+)?")
_FOLDERS: Final = (
    "boot", "home", "media", "mnt", "opt", "srv", "usr/games", "usr/include", "usr/lib/apt", "usr/lib/binfmt.d",
    "usr/lib/dpkg", "usr/lib/init", "usr/lib/lsb", "usr/lib/mime", "usr/lib/pam.d", "usr/lib/systemd",
    "usr/lib/terminfo", "usr/lib/tmpfiles.d", "usr/lib/udev", "usr/lib/valgrind", "usr/lib/*/audit",
    "usr/lib/*/e2fsprogs", "usr/lib/*/engines-3", "usr/lib/*/krb5", "usr/lib/*/perl*", "usr/lib/*/security",
    "usr/libexec", "usr/local/include", "usr/local/share", "usr/local/src", "usr/src", "usr/share/applications",
    "usr/share/bash-completion", "usr/share/binfmts", "usr/share/bug", "usr/share/debconf", "usr/share/debianutils",
    "usr/share/dict", "usr/share/doc-base", "usr/share/dpkg", "usr/share/gcc", "usr/share/gdb", "usr/share/info",
    "usr/share/keyrings", "usr/share/libgcrypt20", "usr/share/lintian", "usr/share/locale", "usr/share/man",
    "usr/share/menu", "usr/share/pam*", "usr/share/perl*", "usr/share/pixmaps", "usr/share/polkit-1",
    "usr/share/readline", "usr/share/tabset", "usr/share/terminfo", "usr/share/util-linux",
    "usr/share/zoneinfo/posix", "usr/share/zoneinfo/right", "var/cache", "var/lib/apt", "var/lib/dpkg/[!s]*",
    "var/lib/dpkg/status-*", "var/lib/pam", "var/lib/systemd", "var/log",
)  # fmt: skip
_SETTINGS: Final = {
    "ca-certificates", "ca-certificates.conf", "debian_version", "gai.conf", "group", "gshadow", "host.conf", "hosts",
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "os-release", "passwd",
    "protocols", "resolv.conf", "services", "shadow", "ssl", "timezone",
}  # fmt: skip
# Of Python: what develops, teaches and draws, and modules that need a terminal, NIS or an old database.
_MODULES: Final = (
    "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter", "turtledemo", "config-*", "site-packages",
    "lib-dynload/_curses*", "lib-dynload/_dbm*", "lib-dynload/_gdbm*", "lib-dynload/_test*", "lib-dynload/_tkinter*",
    "lib-dynload/nis*", "lib-dynload/xx*",
)  # fmt: skip
# Those that glibc itself does not call extra. Python and lxml have theirs.
_CHARACTER_SETS: Final = {"ANSI_X3", "CP1252", "ISO8859-1", "ISO8859-15", "UNICODE", "UTF-7", "UTF-16", "UTF-32"}
_LIBRARIES: Final = ("usr/lib/*-linux-gnu*/lib*.so*", "usr/lib/lib*.so*", "usr/local/lib/lib*.so*")
# Loaded by the C library: for a thread that ends, and for the names of hosts.
_LOADED_BY_NAME: Final = {"libgcc_s.so.1", "libnss_dns.so.2", "libnss_files.so.2"}


def main() -> None:
    """Trim, and print how much is left."""
    root, folders = Path(sys.argv[1]), [Path(name) for name in sys.argv[3:]]
    loaded = set(Path(sys.argv[2]).read_text(encoding="utf-8").splitlines())
    packages = _packages(root)
    unused = [path for name in _FOLDERS for path in root.glob(name)]
    unused += [
        path
        for folder in ("usr/bin", "usr/sbin", "usr/local/bin", "usr/local/sbin")
        for path in root.glob(f"{folder}/*")
        if path.name not in _COMMANDS and not _PYTHON.fullmatch(path.name)
    ]
    unused += [path for path in root.glob("etc/*") if path.name not in _SETTINGS]
    for library in [*root.glob("usr/lib/python3*"), *root.glob("usr/local/lib/python3*")]:
        unused += [path for name in _MODULES for path in library.glob(name)]
        unused += [path for path in library.rglob("*.pyc") if f"/{path.relative_to(root)}" not in loaded]
    for folder in root.glob("usr/lib/*/gconv"):
        unused += [path for path in folder.glob("*.so") if path.stem not in _CHARACTER_SETS]
        unused += [*folder.glob("gconv-modules.cache"), *folder.glob("gconv-modules.d")]
    for path in unused:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    _remove_libraries(root, folders)
    _forget_packages(root, packages)
    left = sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    print(f"{root}: {left / 1e6:.0f} MB")


def _packages(root: Path) -> dict[str, tuple[str, list[Path]]]:
    """Return dpkg's entry of each package, and what it installed beside texts; nothing where dpkg has no list."""
    status = root / "var/lib/dpkg/status"
    found: dict[str, tuple[str, list[Path]]] = {}
    for entry in status.read_text(encoding="utf-8").strip().split("\n\n") if status.exists() else []:
        fields = dict(re.findall(r"^(Package|Architecture): (.*)$", entry, re.MULTILINE))
        name = fields["Package"]
        lists = [root / f"var/lib/dpkg/info/{name}{of}.list" for of in ("", f":{fields['Architecture']}")]
        paths = [root / line.lstrip("/") for each in lists if each.exists() for line in each.read_text().splitlines()]
        found[name] = entry, [path for path in paths if not path.is_relative_to(root / "usr/share/doc")]
    return found


def _forget_packages(root: Path, packages: dict[str, tuple[str, list[Path]]]) -> None:
    """Remove packages of which no file is left from dpkg's status, and their licences."""
    texts = root / "usr/share/doc"
    kept = {name: entry for name, (entry, paths) in packages.items() if any(path.is_file() for path in paths)}
    # Some packages have the licence of another one.
    needed = {texts / path.readlink() for path in map(texts.joinpath, kept) if path.is_symlink()}
    for path in {texts / name for name in packages.keys() - kept.keys()} - needed:
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)
    if packages:
        (root / "var/lib/dpkg/status").write_text("".join(f"{entry}\n\n" for entry in kept.values()), encoding="utf-8")


def _remove_libraries(root: Path, folders: Iterable[Path]) -> None:
    """Remove shared libraries that nothing else needs, until all that are left are needed."""
    needs = dict(each for folder in (root, *folders) for each in _needs(folder))
    while True:
        needed = {name: path for path, names in needs.items() if path.exists() for name in names}
        libraries = [path for pattern in _LIBRARIES for path in root.glob(pattern)]
        wanted = {path.resolve() for path in libraries if path.name in needed or path.name in _LOADED_BY_NAME}
        unneeded = [path for path in libraries if path.resolve() not in wanted]
        if not unneeded:
            break
        for path in unneeded:
            path.unlink()
    present = {path.name for folder in (root, *folders) for path in folder.rglob("*.so*")}
    if missing := {name: str(path) for name, path in needed.items() if name not in present}:
        raise SystemExit(f"libraries are needed that are not there: {missing}")


def _needs(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield each program and shared library in a folder, with the names of the libraries that it needs."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF":
            command = ["readelf", "--wide", "--dynamic", path]
            shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            yield path, re.findall(r"\(NEEDED\)[^\[]*\[([^\]]+)\]", shown)


if __name__ == "__main__":
    main()
