"""Draw the pictures of `docs/blank.md` and `docs/not-blank.md` into `docs/images/blank`.

The examples are in inspect/tests/inspection/formats/blank_examples.py, and its test compares the pictures with them.
A picture that looks as it should is left alone: encoders of JPEG differ from machine to machine.
"""

import sys
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "inspect"))  # for the tests' generators

from tests.inspection.formats.blank_examples import BLANK_EXAMPLES, NOT_BLANK_EXAMPLES, looks_like, thumbnail

_FOLDER: Final = Path(__file__).parents[1] / "docs" / "images" / "blank"
_QUALITY: Final = 90


def main() -> None:
    """Write the pictures that are missing or look different, and remove those of no example."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = {}
    for example in (*BLANK_EXAMPLES, *NOT_BLANK_EXAMPLES):
        if example.has_picture:
            wanted[f"{example.kind}.jpg"] = thumbnail(example, example.encoded())
    for path in _FOLDER.iterdir():
        if path.name not in wanted:
            path.unlink()
    for name, picture in wanted.items():
        path = _FOLDER / name
        if not path.exists() or not looks_like(path, picture):
            picture.save(path, "JPEG", quality=_QUALITY, optimize=True)
            print(f"written: docs/images/blank/{name}")


if __name__ == "__main__":
    main()
