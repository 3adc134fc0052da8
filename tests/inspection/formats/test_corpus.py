"""Files of the labelled corpus get the verdict of their label."""

from collections.abc import Callable
from typing import Final

import pytest

from sluice_inspect.archives import libarchive
from sluice_inspect.registry import format_of
from sluice_inspect.report import Finding, Outcome
from tests.inspection.formats.examining import Examined, corpus_files, examine_bytes, needs_corpus
from tests.rows import every_row
from tests.servers import UNDER_CI

CHECKS: Final[dict[str, Callable[[Examined], bool]]] = {
    "passes": lambda result: result.passes,
    "is ok": lambda result: result.outcome is Outcome.OK,
    "is not corrupt": lambda result: result.outcome is not Outcome.CORRUPT,
    "is refused": lambda result: not result.passes,
    "is corrupt": lambda result: result.outcome is Outcome.CORRUPT,
    "is encrypted": lambda result: result.outcome is Outcome.ENCRYPTED,
    "is a bomb": lambda result: result.finding is Finding.ARCHIVE_BOMB,
    "is blank": lambda result: bool(result.blank),
    "is not blank": lambda result: not result.blank,
}
SOUND: Final = {"valid": ("passes",), "not_blank": ("passes",)}
READ: Final = {"valid": ("is ok",), "not_blank": ("is ok",)}
SHOWN: Final = {"valid": ("passes",), "not_blank": ("passes", "is not blank"), "blank": ("is blank",)}
SHOWN_TEXT: Final = {"valid": ("is ok",), "not_blank": ("is ok", "is not blank"), "blank": ("is blank",)}
PACKED: Final = SOUND | {"corrupt": ("is refused",), "blank": ("is blank",)}
LOCKED: Final = {"password_protected": ("is encrypted",)}
LOCKED_PASSES: Final = {"password_protected": ("passes",)}
REFUSED: Final = {"corrupt": ("is refused",)}
REFUSED_BOMBS: Final = {"corrupt": ("is refused",), "bomb": ("is refused",)}
BOMBS: Final = {"bomb": ("is a bomb",)}

LABELS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "7z": SOUND | REFUSED | LOCKED,
    "avif": SOUND | REFUSED,
    "bmp": SHOWN,
    "bz2": PACKED,
    "csv": {"valid": ("is not blank",), "not_blank": ("is not blank",), "blank": ("is blank",)},
    "doc": SHOWN | LOCKED,
    "docx": SHOWN | LOCKED_PASSES,
    "eml": SHOWN_TEXT,
    "epub": {"valid": ("passes",)} | REFUSED,
    "gif": SOUND,
    "gz": PACKED,
    "heic": SOUND | REFUSED_BOMBS,
    "html": SHOWN_TEXT,
    "jp2": {"valid": ("passes",)} | REFUSED,
    "jpg": SOUND,
    "json": READ | {"corrupt": ("is corrupt",)},
    "lz4": PACKED,
    "msg": SOUND | {"corrupt": ("is corrupt",)},
    "odp": SHOWN,
    "ods": SHOWN,
    "odt": SHOWN,
    "otf": SOUND,
    "parquet": SHOWN,
    "pdf": {"valid": ("passes",), "not_blank": ("passes", "is not blank")} | LOCKED_PASSES | BOMBS,
    "png": SOUND | REFUSED_BOMBS,
    "ppt": SHOWN | LOCKED,
    "pptx": SHOWN,
    "rar": {"valid": ("is not corrupt",)} | REFUSED | LOCKED,
    "rtf": SHOWN,
    "sqlite": SHOWN,
    "svg": SHOWN_TEXT,
    "tar": {"valid": ("is not corrupt",), "not_blank": ("is not corrupt",)} | REFUSED,
    "tiff": SHOWN,
    "ttf": SOUND,
    "txt": READ,
    "webp": SOUND,
    "woff": SOUND,
    "woff2": SOUND,
    "xls": SHOWN | LOCKED,
    "xlsx": SHOWN | LOCKED_PASSES,
    "xml": READ,
    "xz": PACKED,
    "yaml": SHOWN_TEXT | {"bomb": ("is refused",)},
    "zip": SHOWN | LOCKED_PASSES | BOMBS,
    "zst": PACKED,
}
EXCEPTIONS: Final = {
    ("avif", "corrupt"): ("no-pixi", "poc_b"),  # both decode in every reader
}


@needs_corpus
@pytest.mark.parametrize("name", LABELS)
def test_corpus_files_match_their_labels(name: str) -> None:
    if name == "rar" and not libarchive.is_installed() and not UNDER_CI:
        pytest.skip("libarchive is not installed: apt-get install libarchive13")
    format_ = format_of(name)
    assert format_ is not None
    with every_row() as row:
        for label, checks in LABELS[name].items():
            paths = corpus_files(name, label)
            paths = paths[:2] if (name, label) == ("jp2", "valid") else paths
            excepted = EXCEPTIONS.get((name, label), ())
            for path in (path for path in paths if not any(part in path.name for part in excepted)):
                result = examine_bytes(format_, path.read_bytes())
                for check in checks:
                    with row((label, path.name, check)):
                        assert CHECKS[check](result), result
