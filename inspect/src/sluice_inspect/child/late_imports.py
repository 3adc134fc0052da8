"""Imports for a command that reads a few files: libraries load when they are first used, and what is missing is noted.

`postpone` begins it and `load_all` ends it, in the zygote. Nothing here runs in a process that loads all at once.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Final

# Those that take longest to load. A module that names one imports it at its top, and uses it in functions only.
_LIBRARIES: Final = frozenset({
    "PIL.AvifImagePlugin", "PIL.Image", "PIL.ImageSequence", "av", "email", "email.parser", "email.policy",
    "lxml.etree", "msoffcrypto", "msoffcrypto.method", "msoffcrypto.method.ecma376_agile",
    "msoffcrypto.method.ecma376_standard", "msoffcrypto.method.rc4", "msoffcrypto.method.rc4_cryptoapi",
    "msoffcrypto.method.xor_obfuscation", "numpy", "pikepdf", "pypdfium2", "pypdfium2.raw", "yara_x",
})  # fmt: skip


class LateModule(ModuleType):
    """A library whose code runs as soon as one of its names is used."""

    def __getattr__(self, name: str) -> object:
        _load_now(self.__name__)
        return getattr(self, name)


class _Finder(MetaPathFinder, Loader):
    """Finds the libraries, and makes their modules without running their code.

    `importlib.util.LazyLoader` would run it at the second import.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return how to load one of the libraries later, None for another module."""
        _watch.note(name)
        if name not in _LIBRARIES:
            _load_now(name.rpartition(".")[0])
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None:
            spec.loader, spec.loader_state = self, spec.loader
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return the module that its own loader makes."""
        loader: Loader = spec.loader_state
        return loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Leave its code for later."""
        module.__class__ = LateModule


def _load_now(name: str) -> None:
    """Run the code of a library that was left for later, after that of its package. Do nothing for other modules."""
    module = sys.modules.get(name)
    if not isinstance(module, LateModule):
        return
    _load_now(name.rpartition(".")[0])
    spec = module.__spec__
    if type(module) is LateModule and spec is not None:  # its package may have loaded it
        loader: Loader = spec.loader_state
        module.__class__ = ModuleType  # type: ignore[assignment]  # narrowed above
        module.__loader__ = spec.loader = loader
        loader.exec_module(module)


class _Watch:
    """Notes the first module or file that a child of the process that loads would have needed."""

    def __init__(self) -> None:
        self.missed = ""
        self._loader_pid = 0  # 0: nothing is noted

    def begin(self) -> None:
        """Note what is missing in children of this process."""
        self._loader_pid = os.getpid()
        sys.addaudithook(self._audit)

    def end(self) -> None:
        """Note nothing more."""
        self._loader_pid = 0

    def note(self, name: str) -> None:
        """Note a name, unless this process is the one that loads."""
        if self._loader_pid not in {0, os.getpid()}:
            self.missed = self.missed or name

    def _audit(self, event: str, arguments: tuple[object, ...]) -> None:
        # A descriptor, as of the file under inspection, is no path.
        if event in {"open", "ctypes.dlopen"} and not isinstance(arguments[0], int):
            self.note(str(arguments[0]))


_finder: Final = _Finder()
_watch: Final = _Watch()


def postpone() -> None:
    """Have the libraries loaded when they are first used."""
    sys.meta_path.insert(0, _finder)


def watch_children() -> None:
    """From now on note what children of this process need and cannot load; `missed` returns it."""
    _watch.begin()


def load_all() -> None:
    """Load what was postponed, and postpone and note nothing more."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
        _watch.end()
        for name in sorted(_LIBRARIES & sys.modules.keys()):
            _load_now(name)


def forget_missed() -> None:
    """Forget what was noted."""
    _watch.missed = ""


def missed() -> str:
    """Return the first module or file that this child has needed since and could not load; empty if there is none."""
    return _watch.missed
