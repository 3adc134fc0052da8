"""Score the format checks of `sluice_inspect` against a folder of labelled files.

    python scripts/verdicts.py FOLDER [--format png] [--list] [--tails]

FOLDER contains a `manifest.jsonl`: one JSON object per line with `file` and `label` (valid, corrupt, blank, not_blank,
password_protected, bomb), and optionally `format` (default: the file's extension), `tier` (clean, quirky, ...) and
`viewers` (opens, dead). Intact files are also damaged in known ways, to count how much damage is found. With
`--tails` only their last tenth, quarter and half are overwritten, with 0x00, with 0xFF and with noise.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from scoring.damage import PAGE
from scoring.labelled import MANIFEST, Labelled, read_folder
from scoring.score import Score, score_apart, score_tails_apart
from scoring.table import print_figures, print_heading, print_score, print_tails

from sluice_inspect.inspection import preload
from sluice_inspect.registry import format_of


def main(arguments: Sequence[str]) -> int:
    """Print the scores. Return 0 unless the folder cannot be scored."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help=f"folder with a {MANIFEST}")
    parser.add_argument("--format", action="append", help="only this format; may be repeated")
    parser.add_argument("--list", action="store_true", help="list the misjudged files")
    parser.add_argument("--tails", action="store_true", help="overwrite the ends of intact files, and nothing else")
    options = parser.parse_args(arguments)
    try:
        by_format = read_folder(options.folder)
    except FileNotFoundError:
        sys.stderr.write(f"{options.folder} has no {MANIFEST}\n")
        return 2
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    preload()
    selected = sorted(name for name in by_format if not options.format or name in options.format)
    covered = [name for name in selected if format_of(name) is not None]
    if options.tails:
        _score_tails({name: by_format[name] for name in covered}, listed=options.list)
    else:
        _score_all({name: by_format[name] for name in covered}, by_format, listed=options.list)
    print("not covered:", ", ".join(sorted(set(selected) - set(covered))) or "none")
    return 0


def _score_all(selected: dict[str, list[Labelled]], by_format: dict[str, list[Labelled]], *, listed: bool) -> None:
    scores: dict[str, Score] = {}
    print_heading()
    for name, files in selected.items():
        scores[name] = score_apart(files, _wrong_type(by_format, name))
        print_score(name, scores[name])
        if listed:
            sys.stdout.writelines(f"    {note}\n" for note in scores[name].notes)
    total = Score()
    for score in scores.values():
        total.add(score)
    print_score("all", total)
    print_figures(scores)


def _score_tails(selected: dict[str, list[Labelled]], *, listed: bool) -> None:
    for name, files in selected.items():
        score = score_tails_apart(files)
        print_tails(name, score)
        if listed:
            sys.stdout.writelines(f"    {note}\n" for note in score.notes)


def _wrong_type(by_format: dict[str, list[Labelled]], name: str) -> bytes:
    """Return an intact image of another format, used as content of the wrong type."""
    other = "jpg" if name == "png" else "png"
    return next(
        (f.path.read_bytes() for f in by_format.get(other, []) if f.label == "valid" and f.path.is_file()), PAGE
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
