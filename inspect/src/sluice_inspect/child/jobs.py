"""The jobs that a worker can run, and what it loads for them. Imported in the zygote and its children only.

Importing this module loads no parser: `preload` and `preload_for` do, on the order `load`.
"""

# ruff: noqa: PLC0415  (see above)

import encodings
import functools
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Final

from sluice_inspect.child.shared_buffer import SharedBufferWriter
from sluice_inspect.report import Outcome
from sluice_inspect.source import Source


def check(fd: int, filename: str) -> Mapping[str, object]:
    """Check the format of the file behind `fd`; return `Report.to_json`."""
    from sluice_inspect import inspection

    return inspection.inspect_file(fd, filename=filename).to_json()


def scan(fd: int, filename: str) -> Mapping[str, object]:
    """Scan the file behind `fd` for known threats."""
    return _scan(fd, filename)


def check_and_scan(fd: int, filename: str) -> Mapping[str, object]:
    """Run `check` and `scan` on one small file: handing a file over costs more than either."""
    from sluice_inspect import inspection

    # A file with a fault is refused, so its scan is not needed, and of a bomb it would take long: it is null.
    with Source(fd) as source:
        report = inspection.inspect_file(source, filename=filename)
        has_fault = report.finding is not None or report.integrity in {Outcome.CORRUPT, Outcome.TOO_COMPLEX}
        return {
            "check": report.to_json(),
            "scan": None if has_fault else _scan(source, ""),
        }


def extract_hidden(fd: int, filename: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    """Scan for known threats, and write the parts that clamd does not see to `buffer`."""
    return _scan(fd, filename, buffer)


def extract_all(fd: int, filename: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    """Scan for known threats, and write every part that is packed in the file to `buffer`."""
    return _scan(fd, filename, buffer, everything=True)


def _scan(
    file: int | Source, filename: str, buffer: SharedBufferWriter | None = None, *, everything: bool = False
) -> Mapping[str, object]:
    from sluice_inspect.threats.scan import scan_source

    report = scan_source(file, filename, buffer, everything=everything)
    # For most files, most fields are null, false, 0 or empty; sending them costs as much as the scan of a small file.
    return {name: value for name, value in report.items() if value}


def _complete(function: Callable[..., Mapping[str, object]]) -> Callable[..., Mapping[str, object]]:
    """Return the job; it raises `NotLoaded` whenever it needed what is not loaded, whatever came of that."""

    @functools.wraps(function)
    def run(*arguments: object) -> Mapping[str, object]:
        _postponed.missed = ""  # to test its lock, a worker tries to open a folder
        try:
            return function(*arguments)
        finally:
            if _postponed.missed:
                raise NotLoaded(_postponed.missed)

    return run


JOBS: Final[Mapping[str, Callable[..., Mapping[str, object]]]] = {
    function.__name__: _complete(function) for function in (check, scan, check_and_scan, extract_hidden, extract_all)
}


def preload() -> None:
    """Load what a confined worker can no longer load: every parser, and every codec that a file could name."""
    _postponed.end()
    from sluice_inspect import inspection
    from sluice_inspect.threats import scan as threats

    for module in pkgutil.iter_modules(encodings.__path__):
        if module.name not in {"cp65001", "mbcs", "oem"}:  # exist on Windows only
            importlib.import_module(f"encodings.{module.name}")
    inspection.preload()
    threats.preload()


def preload_for(extensions: Sequence[str], *, scanned: bool) -> None:
    """Load what good files of these extensions need: a command reads a few files, and loading costs more than they do.

    A job on a file that needs more raises `NotLoaded`; `preload` then loads the rest.
    """
    _postponed.begin()
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
    _postponed.watch_children()


class NotLoaded(Exception):
    """A job needed a module or a file that was not loaded before its process was locked. `str()` names it."""


class _LaterModule(ModuleType):
    """A library that is loaded as soon as one of its names is used."""

    def __getattr__(self, name: str) -> object:
        _load_now(self.__name__)
        return getattr(self, name)


class _LaterLoader(Loader):
    """Makes a module, and leaves its code for later. `importlib.util.LazyLoader` runs it at the second import."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _LaterModule


def _load_now(name: str) -> None:
    """Run the code of a library that was left for later, after that of its package. Do nothing for other modules."""
    if not isinstance(sys.modules.get(name), _LaterModule):
        return
    _load_now(name.rpartition(".")[0])
    module = sys.modules[name]
    spec = module.__spec__
    if isinstance(module, _LaterModule) and spec is not None and isinstance(spec.loader, _LaterLoader):
        module.__class__ = ModuleType  # type: ignore[assignment]  # it is no longer what it was narrowed to
        module.__loader__ = spec.loader = spec.loader.loader
        spec.loader.exec_module(module)


class _Postponed(MetaPathFinder):
    """Libraries that load when one of their names is first used, and what locked children would have loaded."""

    # Those that take longest to load. A module that names one imports it at its top, and uses it in functions only.
    _LIBRARIES: Final = frozenset({
        "PIL.AvifImagePlugin", "PIL.Image", "PIL.ImageSequence", "av", "email", "email.parser", "email.policy",
        "lxml.etree", "msoffcrypto", "msoffcrypto.method", "msoffcrypto.method.ecma376_agile",
        "msoffcrypto.method.ecma376_standard", "msoffcrypto.method.rc4", "msoffcrypto.method.rc4_cryptoapi",
        "msoffcrypto.method.xor_obfuscation", "numpy", "pikepdf", "pypdfium2", "pypdfium2.raw", "yara_x",
    })  # fmt: skip

    def __init__(self) -> None:
        self.missed = ""
        self._loader_pid = 0

    def begin(self) -> None:
        """Postpone from now on."""
        sys.meta_path.insert(0, self)

    def end(self) -> None:
        """Load what was postponed, and postpone nothing more."""
        if self not in sys.meta_path:
            return
        sys.meta_path.remove(self)
        self._loader_pid = 0
        for name in sorted(self._LIBRARIES & sys.modules.keys()):
            _load_now(name)

    def watch_children(self) -> None:
        """Note what a child of this process tries to load."""
        self._loader_pid = os.getpid()
        sys.addaudithook(self._audit)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return where to load one of the libraries from, later."""
        self._note(name)
        if name not in self._LIBRARIES:
            _load_now(name.rpartition(".")[0])
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _LaterLoader(spec.loader)
        return spec

    def _audit(self, event: str, arguments: tuple[object, ...]) -> None:
        # A descriptor, as of the file under inspection, is no path.
        if event in {"open", "ctypes.dlopen"} and not isinstance(arguments[0], int):
            self._note(str(arguments[0]))

    def _note(self, name: str) -> None:
        if self._loader_pid not in {0, os.getpid()}:
            self.missed = self.missed or name


_postponed: Final = _Postponed()


def samples() -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    """Yield, for each format whose reader is installed, its name, a file name, and a maker of a small good file."""
    from sluice_inspect.registry import FORMATS

    for file_format in FORMATS:
        if not file_format.missing_reader:
            yield file_format.name, f"sample.{min(file_format.extensions)}", file_format.sample
