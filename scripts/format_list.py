"""Write `sluice_inspect/format_list.json`, what is known of all formats without loading one, or say that it is stale.

python scripts/format_list.py            write it
python scripts/format_list.py --check    exit with 1 if it differs from what the formats declare
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import sluice_inspect.format_list
from sluice_inspect.registry import listed

_PATH: Final = Path(sluice_inspect.format_list.__file__).with_suffix(".json")


def main(words: Sequence[str]) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description="Write the list of formats that the server reads.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the list is stale")
    is_check = parser.parse_args(words).check
    text = list_of_formats()
    if text == _PATH.read_text(encoding="utf-8"):
        return 0
    if is_check:
        print(f"stale: {_PATH} (run `make docs`)", file=sys.stderr)
        return 1
    _PATH.write_text(text, encoding="utf-8")
    print(f"written: {_PATH}")
    return 0


def list_of_formats() -> str:
    """Return the content of the file."""
    formats = {name: asdict(each) for name, each in listed().items()}
    return json.dumps(formats, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
