"""Compare the verdicts on the files of a folder with what other readers make of the same files.

    python scripts/differential_files.py FOLDER [--sample 1000] [--differences FILE] [--readings FILE]

Each file whose name has the extension of a format is inspected by `sluice_inspect`, and read by the libraries and
programs of `reference_readers.py` that are installed. The table counts by format. The files that we refuse and a reader
opens, and those that we accept and no reader opens, are written to `--differences`, one JSON object per line.
`--readings` keeps what the readers made of each file, so that a changed rule is measured again without them.
"""

import argparse
import json
import multiprocessing
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, TypeVar

from reference_readers import READERS, SECONDS, Reader

from sluice_inspect import Inspector, InspectorUnavailable
from sluice_inspect.extensions import extension_of
from sluice_inspect.registry import format_of

_Result = TypeVar("_Result")
_PASSES: Final = frozenset({"ok", "encrypted", "unsupported"})


@dataclass(frozen=True, slots=True)
class Judged:
    """One file: our verdict, and what each reader said of it, empty if it opened the file."""

    path: Path
    format: str
    reason: str
    detail: str
    readers: dict[str, str]

    @property
    def is_refused(self) -> bool:
        """Whether an upload of the file is refused."""
        return self.reason not in _PASSES

    @property
    def opened(self) -> int:
        """How many readers open the file."""
        return sum(not fault for fault in self.readers.values())

    @property
    def differs(self) -> bool:
        """Whether a reader opens what we refuse, or none opens what we accept. Readers open what is blank."""
        return bool(self.readers) and self.reason != "blank" and self.is_refused == bool(self.opened)


def main(arguments: Sequence[str]) -> int:
    """Print the table. Return 0 unless there is no file to compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--format", action="append", help="only this format; may be repeated")
    parser.add_argument("--sample", type=int, help="compare this many files of each format, chosen at random")
    parser.add_argument("--workers", type=int, default=2, help="files at a time")
    parser.add_argument("--differences", type=Path, help="write the files that differ here")
    parser.add_argument("--readings", type=Path, help="read and write what the readers made of each file")
    options = parser.parse_args(arguments)
    files = _chosen(options.folder, options.format, options.sample)
    if not files:
        sys.stderr.write(f"{options.folder} has no file of a format that is compared\n")
        return 2
    print("not installed:", ", ".join(sorted(each.name for each in READERS if not each.is_installed)) or "none")
    verdicts = _verdicts(files, options.workers)
    known = _known(options.readings)
    readings = _read_all(files, verdicts, known, options.workers)
    if options.readings is not None:
        options.readings.write_text(json.dumps(known), "utf-8")
    judged = [
        Judged(path, name, *verdict, reading)
        for (path, name), verdict, reading in zip(files, verdicts, readings, strict=True)
    ]
    _print_table(judged)
    if options.differences is not None:
        options.differences.write_text("".join(_line(each) for each in judged if each.differs), "utf-8")
    return 0


def _chosen(folder: Path, formats: list[str] | None, sample: int | None) -> list[tuple[Path, str]]:
    by_format: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        found = format_of(extension_of(path.name))
        if found is not None and path.is_file() and (not formats or found.name in formats):
            by_format.setdefault(found.name, []).append(path)
    picked = random.Random(0)  # noqa: S311  (a repeatable choice, no secret)
    return [
        (path, name)
        for name, paths in sorted(by_format.items())
        for path in (picked.sample(paths, min(sample, len(paths))) if sample else paths)
    ]


def _verdicts(files: list[tuple[Path, str]], workers: int) -> list[tuple[str, str]]:
    """Return reason and detail of our verdict on each file."""
    with Inspector(workers=workers) as inspector, ThreadPoolExecutor(workers) as threads:

        def judge(path: Path) -> tuple[str, str]:
            try:
                verdict = inspector.inspect(path)
            except InspectorUnavailable as error:
                return "unavailable", str(error)
            return verdict.reason, verdict.detail

        return list(_progress("inspected", threads.map(judge, [path for path, _ in files]), len(files)))


def _known(readings: Path | None) -> dict[str, dict[str, str]]:
    if readings is None or not readings.is_file():
        return {}
    known: dict[str, dict[str, str]] = json.loads(readings.read_text("utf-8"))
    return known


def _read_all(
    files: list[tuple[Path, str]], verdicts: list[tuple[str, str]], known: dict[str, dict[str, str]], workers: int
) -> list[dict[str, str]]:
    """Return what each reader made of each file, and add it to `known`."""
    installed = [each for each in READERS if each.is_installed]
    jobs = []
    for (path, name), (reason, _) in zip(files, verdicts, strict=True):
        wanted = [each.name for each in installed if name in each.formats and not (each.is_slow and reason in _PASSES)]
        jobs.append((path, [each for each in wanted if each not in known.get(str(path), {})]))
    with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
        for (path, _), found in zip(jobs, _progress("read", pool.map(_read, jobs), len(jobs)), strict=True):
            known.setdefault(str(path), {}).update(found)
    return [known[str(path)] for path, _ in files]


def _read(job: tuple[Path, list[str]]) -> dict[str, str]:
    """Read a file by readers of these names, in a process that they may take with them."""
    path, names = job
    found: dict[str, str] = {}
    waiting = [each for each in READERS if each.name in names]
    while waiting:
        found |= _read_in_child(path, waiting)
        waiting = [each for each in waiting if each.name not in found]
    return found


def _read_in_child(path: Path, readers: list[Reader]) -> dict[str, str]:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send_readings, args=(path, readers, sender))
    child.start()
    sender.close()
    found: dict[str, str] = {}
    for reader in readers:
        try:
            found[reader.name] = receiver.recv() if receiver.poll(2 * SECONDS) else "took too long"
        except EOFError:
            found[reader.name] = "died"
        if found[reader.name] in {"took too long", "died"}:
            break
    child.kill()
    child.join()
    return found


def _send_readings(path: Path, readers: list[Reader], sender: Connection) -> None:
    sys.stderr = open("/dev/null", "w", encoding="utf-8")  # noqa: PTH123, SIM115  (for the child's whole life)
    for reader in readers:
        try:
            reader.read(path)
        except BaseException as error:  # noqa: BLE001  (each reader fails in its own ways)
            sender.send(f"{type(error).__name__}: {error}"[:200])
        else:
            sender.send("")


def _progress(done: str, results: Iterable[_Result], total: int) -> Iterator[_Result]:
    for number, result in enumerate(results, 1):
        if number % 500 == 0:
            sys.stderr.write(f"{done} {number} of {total}\n")
        yield result


def _print_table(judged: list[Judged]) -> None:
    by_format: dict[str, list[Judged]] = {}
    for each in judged:
        by_format.setdefault(each.format, []).append(each)
    print("| Format | Files | Accepted | Refused, and a reader opens it | Accepted, and none opens it | Refused for |")
    print("|---|---|---|---|---|---|")
    for name, files in [*sorted(by_format.items()), ("all", judged)]:
        refused = [each for each in files if each.is_refused]
        opened = sum(each.differs for each in refused)
        unopened = sum(each.differs for each in files if not each.is_refused)
        reasons = ", ".join(f"{reason} {count}" for reason, count in Counter(e.reason for e in refused).most_common())
        print(f"| {name} | {len(files)} | {len(files) - len(refused)} | {opened} | {unopened} | {reasons} |")


def _line(judged: Judged) -> str:
    row = {
        "file": str(judged.path),
        "format": judged.format,
        "reason": judged.reason,
        "detail": judged.detail,
        "readers": judged.readers,
    }
    return json.dumps(row, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
