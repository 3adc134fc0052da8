"""The command `sluice-inspect FILE...`: inspects files in locked processes and prints one line for each."""

import argparse
import errno
import json
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sluice_inspect.inspector import Inspector, InspectorUnavailable, Verdict
from sluice_inspect.report import WalkerFailed, printable
from sluice_inspect.sandbox import FewFiles, SandboxBroken

_EXIT_STATUS: Final = (
    "The exit status is 0 if all files are ok, 1 if any is not, 2 if a file cannot be read or checked."
)


def main(arguments: Sequence[str] | None = None, inspector: Inspector | None = None) -> int:
    """Inspect the files named in the arguments, print what was found, and return the exit status.

    `inspector` is one that runs already, which stays open; without it, one is started.
    """
    parser = argparse.ArgumentParser(
        prog="sluice-inspect",
        description="Inspect files: are they sound, blank, what their names claim, and free of known threats?",
        epilog=_EXIT_STATUS,
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print the whole report of each file as a line of JSON")
    parser.add_argument(
        "--in-process",
        action="store_true",
        help="read the files in this process, without the search for threats: for files of your own, or without Linux",
    )
    options = parser.parse_args(arguments)
    if options.in_process:
        return _inspect_all(options.files, None, as_json=options.json)
    if inspector is not None:
        return _inspect_all(options.files, inspector, as_json=options.json)
    only = FewFiles.named(options.files, scanned=True)
    try:
        with Inspector(only=only) as started:
            return _inspect_all(options.files, started, as_json=options.json)
    except SandboxBroken as error:
        sys.stderr.write(f"sluice-inspect: no locked process can be started: {error}\n")
        return 2


def _inspect_all(names: Sequence[str], inspector: Inspector | None, *, as_json: bool) -> int:
    status = 0
    for name in names:
        try:
            verdict = _inspect(name, inspector)
        except OSError as error:
            sys.stderr.write(f"sluice-inspect: cannot read {_quote(name)}: {error.strerror or error}\n")
            status = 2
            continue
        except (WalkerFailed, InspectorUnavailable) as error:
            sys.stderr.write(f"sluice-inspect: cannot check {_quote(name)}: {error}\n")
            status = 2
            continue
        sys.stdout.write(f"{_line(name, verdict, as_json=as_json)}\n")
        if verdict.reason != "ok":
            status = max(status, 1)
    return status


def _inspect(name: str, inspector: Inspector | None) -> Verdict:
    # A pipe has no size and cannot be read in any order: without this it would be reported as empty.
    if not stat.S_ISREG(Path(name).stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    if inspector is not None:
        return inspector.inspect(name)
    from sluice_inspect.inspection import inspect_file  # noqa: PLC0415  (loads every parser)

    return Verdict(inspect_file(name))


def _line(name: str, verdict: Verdict, *, as_json: bool) -> str:
    report = verdict.report
    if as_json:
        facts = {"file": name, "reason": verdict.reason, "threat": verdict.threat, "fault": verdict.fault}
        return json.dumps(facts | {"report": None if report is None else report.to_json()})
    kind = "unknown" if report is None else report.content_type
    return f"{_quote(name)}: {verdict.reason} ({kind}){verdict.detail and f': {verdict.detail}'}"


def _quote(name: str) -> str:
    # A file name may hold escape sequences for the terminal, or bytes that are no characters.
    return printable(os.fsdecode(name), len(name))


if __name__ == "__main__":
    sys.exit(main())
