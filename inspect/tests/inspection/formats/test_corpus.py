"""Files of the labelled corpus get the verdict of their label."""

from collections.abc import Callable
from typing import Final

import pytest

from sluice_inspect.archives import libarchive
from sluice_inspect.registry import format_of
from sluice_inspect.report import Finding, Outcome
from tests.inspection.formats.examining import Examined, corpus_files, examine_bytes, needs_corpus
from tests.inspection.formats.media_samples import SOUND, VIDEO
from tests.required import UNDER_CI
from tests.rows import every_row

Labels = dict[str, tuple[str, ...]]
"""The checks for the files of each label."""
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
WHOLE: Final[Labels] = {"valid": ("passes",), "not_blank": ("passes",)}
READ: Final[Labels] = {"valid": ("is ok",), "not_blank": ("is ok",)}
SHOWN: Final[Labels] = {"valid": ("passes",), "not_blank": ("passes", "is not blank"), "blank": ("is blank",)}
SHOWN_TEXT: Final[Labels] = {"valid": ("is ok",), "not_blank": ("is ok", "is not blank"), "blank": ("is blank",)}
PACKED: Final[Labels] = WHOLE | {"corrupt": ("is refused",), "blank": ("is blank",)}
LOCKED: Final[Labels] = {"password_protected": ("is encrypted",)}
LOCKED_PASSES: Final[Labels] = {"password_protected": ("passes",)}
REFUSED: Final[Labels] = {"corrupt": ("is refused",)}
REFUSED_BOMBS: Final[Labels] = {"corrupt": ("is refused",), "bomb": ("is refused",)}
BOMBS: Final[Labels] = {"bomb": ("is a bomb",)}

PLAYED: Final[Labels] = {
    "valid": ("is not corrupt",),
    "not_blank": ("is not corrupt", "is not blank"),
    "blank": ("is blank",),
}

LABELS: Final[dict[str, Labels]] = {
    **dict.fromkeys((*SOUND, *VIDEO), PLAYED),
    "7z": WHOLE | REFUSED | LOCKED,
    "avif": WHOLE | REFUSED,
    "bmp": SHOWN,
    "bz2": PACKED,
    "csv": {"valid": ("is not blank",), "not_blank": ("is not blank",), "blank": ("is blank",)},
    "doc": SHOWN | LOCKED,
    "docx": SHOWN | LOCKED_PASSES,
    "eml": SHOWN_TEXT,
    "epub": REFUSED | {"valid": ("passes",)},
    "gif": WHOLE,
    "gz": PACKED,
    "heic": WHOLE | REFUSED_BOMBS,
    "html": SHOWN_TEXT,
    "jp2": REFUSED | {"valid": ("passes",)},
    "jpg": WHOLE,
    "json": READ | {"corrupt": ("is corrupt",)},
    "lz4": PACKED,
    "msg": WHOLE | {"corrupt": ("is corrupt",)},
    "odp": SHOWN,
    "ods": SHOWN,
    "odt": SHOWN,
    "otf": WHOLE,
    "parquet": SHOWN,
    "pdf": {"valid": ("passes",), "not_blank": ("passes", "is not blank")} | LOCKED_PASSES | BOMBS,
    "png": WHOLE | REFUSED_BOMBS,
    "ppt": SHOWN | LOCKED,
    "pptx": SHOWN,
    "rar": REFUSED | LOCKED | {"valid": ("is not corrupt",)},
    "rtf": SHOWN,
    "sqlite": SHOWN,
    "svg": SHOWN_TEXT,
    "tar": {"valid": ("is not corrupt",), "not_blank": ("is not corrupt",)} | REFUSED,
    "tiff": SHOWN,
    "ttf": WHOLE,
    "txt": READ,
    "webp": WHOLE,
    "woff": WHOLE,
    "woff2": WHOLE,
    "xls": SHOWN | LOCKED,
    "xlsx": SHOWN | LOCKED_PASSES,
    "xml": READ,
    "xz": PACKED,
    "yaml": SHOWN_TEXT | {"bomb": ("is refused",)},
    "zip": SHOWN | LOCKED_PASSES | BOMBS,
    "zst": PACKED,
}
needs_libarchive = pytest.mark.skipif(
    not libarchive.is_installed() and not UNDER_CI, reason="libarchive is not installed: apt-get install libarchive13"
)
EXCEPTIONS: Final = {
    ("avif", "corrupt"): ("no-pixi", "poc_b"),  # both decode in every reader
    ("mp3", "valid"): ("1c0ff998f8_xing",),  # truncated inside its last frame, like an interrupted upload
}


@needs_corpus
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_libarchive if name == "rar" else ()) for name in LABELS]
)
def test_corpus_files_match_their_labels(name: str) -> None:
    format_ = format_of(name)
    assert format_ is not None
    with every_row() as row:
        for label, checks in LABELS[name].items():
            excepted = EXCEPTIONS.get((name, label), ())
            for path in corpus_files(name, label):
                if any(part in path.name for part in excepted):
                    continue
                result = examine_bytes(format_, path.read_bytes())
                for check in checks:
                    with row((label, path.name, check)):
                        assert CHECKS[check](result), result
