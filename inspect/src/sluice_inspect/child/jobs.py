"""The jobs that a worker can run, and what it loads for them. Imported in the zygote and its children only.

Importing this module loads no parser: `preload` and `preload_for` do, on the order `load`.
"""

# ruff: noqa: PLC0415  (see above)

import encodings
import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from sluice_inspect import checks
from sluice_inspect.child import late_imports
from sluice_inspect.child.shared_buffer import SharedBufferWriter
from sluice_inspect.report import Limits, Outcome, Report
from sluice_inspect.source import Source


def check(fd: int, filename: str) -> Mapping[str, object]:
    """Check the format of the file behind `fd`; return `Report.to_json`."""
    return _check(fd, filename)


def check_legible(fd: int, filename: str) -> Mapping[str, object]:
    """Do so, and measure how legible a picture is."""
    return _check(fd, filename, legibility=True)


def scan(fd: int, filename: str) -> Mapping[str, object]:
    """Scan the file behind `fd` for known threats."""
    return _scan(fd, filename)


def check_and_scan(fd: int, filename: str) -> Mapping[str, object]:
    """Run `check` and `scan` on one small file: handing a file over costs more than either."""
    return _check_and_scan(fd, filename)


def check_legible_and_scan(fd: int, filename: str) -> Mapping[str, object]:
    """Run `check_legible` and `scan` likewise."""
    return _check_and_scan(fd, filename, legibility=True)


def extract_hidden(fd: int, filename: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    """Scan for known threats, and write the parts that clamd does not see to `buffer`."""
    return _scan(fd, filename, buffer)


def extract_all(fd: int, filename: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    """Scan for known threats, and write every part that is packed in the file to `buffer`."""
    return _scan(fd, filename, buffer, everything=True)


def hash_members(fd: int, filename: str, buffer: SharedBufferWriter) -> Mapping[str, object]:  # noqa: ARG001
    """Write the SHA-256 of every part that is packed in the file to `buffer`."""
    from sluice_inspect.threats import digests

    return digests.hash_members(fd, buffer, weak=False)


def hash_members_weak(fd: int, filename: str, buffer: SharedBufferWriter) -> Mapping[str, object]:  # noqa: ARG001
    """Do so with MD5 and SHA-1 as well."""
    from sluice_inspect.threats import digests

    return digests.hash_members(fd, buffer, weak=True)


def preview_200(fd: int, filename: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    """Write the pixels of a preview of at most 200 pixels a side to `buffer`."""
    from sluice_inspect.previews import preview

    return preview.write_preview(fd, filename, 200, buffer.write)


def preview_1200(fd: int, filename: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    """Write the pixels of a preview of at most 1,200 pixels a side to `buffer`."""
    from sluice_inspect.previews import preview

    return preview.write_preview(fd, filename, 1200, buffer.write)


def sanitise_metadata(fd: int, filename: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    """Write the file without its metadata to `buffer`."""
    return _sanitise(fd, filename, buffer, {"metadata"})


def sanitise_active_content(fd: int, filename: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    """Write the file without its active content to `buffer`."""
    return _sanitise(fd, filename, buffer, {"active_content"})


def sanitise_metadata_and_active_content(fd: int, filename: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    """Write the file without either to `buffer`."""
    return _sanitise(fd, filename, buffer, {"metadata", "active_content"})


def sanitise_pixels(fd: int, filename: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    """Write nothing but what the picture or the pages show to `buffer`."""
    return _sanitise(fd, filename, buffer, {"pixels"})


def _check(fd: int, filename: str, *, legibility: bool = False) -> Mapping[str, object]:
    from sluice_inspect import inspection

    with Source(fd) as source:
        report = inspection.inspect_file(source, filename=filename, limits=Limits(legibility=legibility))
        return _with_checks(report, source, filename)


def _check_and_scan(fd: int, filename: str, *, legibility: bool = False) -> Mapping[str, object]:
    from sluice_inspect import inspection

    # A file with a fault is refused, so its scan is not needed, and of a bomb it would take long: it is null.
    with Source(fd) as source:
        report = inspection.inspect_file(source, filename=filename, limits=Limits(legibility=legibility))
        has_fault = report.finding is not None or report.integrity in {Outcome.CORRUPT, Outcome.TOO_COMPLEX}
        return {
            "check": _with_checks(report, source, filename),
            "scan": None if has_fault else _scan(source, ""),
        }


def match_text(fd: int, filename: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    """Return what the text of the file contains of what the question in `buffer` names; nothing of the text itself."""
    from sluice_inspect.document_text import matching
    from sluice_inspect.ocr import pages

    return matching.match_text(fd, filename, buffer.read(), pages.loaded())


def read_kind_terms(fd: int, filename: str) -> Mapping[str, object]:
    """Return the words and the layout of an example of a kind of documents."""
    from sluice_inspect.document_text import kinds

    return kinds.read_kind_terms(fd, filename)


def learn_kind(fd: int, filename: str) -> Mapping[str, object]:  # noqa: ARG001
    """Return what the examples have in common whose features are the JSON behind `fd`."""
    from sluice_inspect.document_text import kinds

    return kinds.learn_kind(fd)


def compare_kind(fd: int, filename: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    """Return how alike the file is to the kind of documents in `buffer`; nothing of its own text."""
    from sluice_inspect.document_text import kinds

    return kinds.compare_kind(fd, filename, buffer.read())


def _sanitise(fd: int, filename: str, buffer: SharedBufferWriter, removals: AbstractSet[str]) -> Mapping[str, object]:
    from sluice_inspect.sanitise import sanitising

    return sanitising.write_sanitised(fd, filename, removals, buffer.write)


def _scan(
    file: int | Source, filename: str, buffer: SharedBufferWriter | None = None, *, everything: bool = False
) -> Mapping[str, object]:
    from sluice_inspect.threats.scan import scan_source

    report = scan_source(file, filename, buffer, everything=everything)
    # For most files, most fields are null, false, 0 or empty; sending them costs as much as the scan of a small file.
    return {name: value for name, value in report.items() if value}


def _with_checks(report: Report, source: Source, filename: str) -> dict[str, object]:
    """Return the report, and under `python` the results of the operator's own checks, if there are any."""
    results = checks.run_checks(source, report, filename)
    return report.to_json() if results is None else {**report.to_json(), "python": results}


def _complete(function: Callable[..., Mapping[str, object]]) -> Callable[..., Mapping[str, object]]:
    """Return the job; it raises `NotLoaded` whenever it needed what is not loaded, whatever came of that."""

    @functools.wraps(function)
    def run(*arguments: object) -> Mapping[str, object]:
        late_imports.forget_missed()  # to test its lock, a worker tries to open a folder
        try:
            return function(*arguments)
        finally:
            if missed := late_imports.missed():
                raise NotLoaded(missed)

    return run


JOBS: Final[Mapping[str, Callable[..., Mapping[str, object]]]] = {
    function.__name__: _complete(function)
    for function in (
        check,
        check_legible,
        scan,
        check_and_scan,
        check_legible_and_scan,
        extract_hidden,
        extract_all,
        hash_members,
        hash_members_weak,
        preview_200,
        preview_1200,
        sanitise_metadata,
        sanitise_active_content,
        sanitise_metadata_and_active_content,
        sanitise_pixels,
        match_text,
        read_kind_terms,
        learn_kind,
        compare_kind,
    )
}


def preload() -> None:
    """Load what a confined worker can no longer load: every parser, and every codec that a file could name."""
    late_imports.load_all()
    from sluice_inspect import inspection
    from sluice_inspect.document_text import kinds, matching
    from sluice_inspect.ocr import pages  # loads no model
    from sluice_inspect.previews import preview
    from sluice_inspect.sanitise import sanitising
    from sluice_inspect.threats import digests
    from sluice_inspect.threats import scan as threats

    for module in pkgutil.iter_modules(encodings.__path__):
        if module.name not in {"cp65001", "mbcs", "oem"}:  # exist on Windows only
            importlib.import_module(f"encodings.{module.name}")
    inspection.preload()
    threats.preload()
    digests.preload()
    preview.preload()
    sanitising.preload()
    matching.preload()
    kinds.preload()
    pages.loaded()


def load_checks(names: Sequence[str]) -> None:
    """Have these checks of the operator's own made after the check of each file."""
    checks.load(names)


def load_ocr(names: Sequence[str]) -> None:
    """Have pictures and scanned pages read by OCR in languages of these names, in this process alone."""
    from sluice_inspect.ocr import pages

    pages.load(names)


def load_rules(serialized: bytes, version: str) -> None:
    """Apply the operator's compiled rules to every file that is scanned from now on."""
    from sluice_inspect.threats import operator_rules

    operator_rules.load(serialized, version)


def preload_for(extensions: Sequence[str], *, scanned: bool) -> None:
    """Load what good files of these extensions need: a command reads a few files, and loading costs more than they do.

    A job on a file that needs more raises `NotLoaded`; `preload` then loads the rest.
    """
    late_imports.postpone()
    from sluice_inspect import inspection, registry

    if scanned:
        from sluice_inspect.threats import encoded, rulebook

        encoded.preload()
        rulebook.compiled()
    inspection.preload_codecs()
    for extension in extensions:
        named = registry.format_of(extension)
        if named is None:
            _ = registry.FORMATS  # one of them may recognise the content
        elif not named.missing_reader:
            inspection.inspect_sample(named)
            if scanned:
                with inspection.open_sample(named) as sample:
                    _scan(sample.fileno(), "")
    late_imports.watch_children()


class NotLoaded(Exception):
    """A job needed a module or a file that was not loaded before its process was locked. `str()` names it."""


def samples() -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    """Yield, for each format whose reader is installed, its name, a file name, and a maker of a small good file."""
    from sluice_inspect.registry import FORMATS

    for file_format in FORMATS:
        if not file_format.missing_reader:
            yield file_format.name, f"sample.{min(file_format.extensions)}", file_format.sample
