"""The command `sluice-inspect FILE...`: inspects files and prints one line for each."""

import argparse
import errno
import json
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Outcome, Report, WalkerFailed, printable

_EXIT_STATUS: Final = (
    "The exit status is 0 if all files are ok, 1 if any is not, 2 if a file cannot be read or checked."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Inspect the files named in the arguments, print what was found, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="sluice-inspect",
        description="Inspect files: are they sound, blank, and what their names claim?",
        epilog=_EXIT_STATUS,
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print the whole report of each file as a line of JSON")
    options = parser.parse_args(arguments)

    status = 0
    for name in options.files:
        try:
            report = _inspect(name)
        except OSError as error:
            sys.stderr.write(f"sluice-inspect: cannot read {_quote(name)}: {error.strerror or error}\n")
            status = 2
            continue
        except WalkerFailed as error:
            sys.stderr.write(f"sluice-inspect: cannot check {_quote(name)}: {error}\n")
            status = 2
            continue
        if options.json:
            line = json.dumps({"file": name} | report.to_json())
        else:
            detail = report.detail or report.blank_detail
            line = (
                f"{_quote(name)}: {report.finding or report.outcome} ({report.content_type}){detail and f': {detail}'}"
            )
        sys.stdout.write(f"{line}\n")
        if report.outcome is not Outcome.OK or report.finding is not None:
            status = max(status, 1)
    return status


def _inspect(name: str) -> Report:
    # A pipe has no size and cannot be read in any order: without this it would be reported as empty.
    if not stat.S_ISREG(Path(name).stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return inspect_file(name)


def _quote(name: str) -> str:
    # A file name may hold escape sequences for the terminal, or bytes that are no characters.
    return printable(os.fsdecode(name), len(name))


if __name__ == "__main__":
    sys.exit(main())
