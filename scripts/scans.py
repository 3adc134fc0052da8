"""Score the blank rule on drawn scans: empty pages as scanners and phones make them, and pages with little on them.

    python scripts/scans.py [--count 20] [--first 0] [--judging | --wide] [--format JPEG] [--list]

Each kind is drawn `--count` times. The pictures are drawn by scan_samples.py of inspect/tests/inspection/formats from
their kind and seed, so that any can be had again; `--wide` draws from wider ranges. With those the rules were made.
`--judging` scores with the pictures of scan_judging.py, which was written without knowledge of the rules.
"""

import argparse
import io
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "inspect"))  # for the tests\' generators

from sluice_inspect import inspect
from sluice_inspect.inspection import preload
from tests.inspection.formats import scan_judging, scan_samples


def main(arguments: Sequence[str]) -> int:
    """Print the figures of each kind and return 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20, help="pictures of each kind")
    parser.add_argument("--first", type=int, default=0, help="seed of the first picture")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--judging", action="store_true", help="draw with the independent generator")
    source.add_argument("--wide", action="store_true", help="draw from wider ranges")
    parser.add_argument("--format", default="", help="JPEG, PNG, PDF, TIFF, WEBP; by default they take turns")
    parser.add_argument("--kind", action="append", help="only this kind; may be repeated")
    parser.add_argument("--list", action="store_true", help="list the misjudged pictures")
    options = parser.parse_args(arguments)
    preload()
    drawn = scan_judging if options.judging else scan_samples
    for kinds, expected in ((drawn.BLANK_KINDS, True), (drawn.CONTENT_KINDS, False)):
        right = total = 0
        for kind in kinds:
            if options.kind and kind not in options.kind:
                continue
            wrong, slowest = _score(kind, options, expected=expected)
            right, total = right + options.count - len(wrong), total + options.count
            figure = options.count - len(wrong) if expected else len(wrong)
            print(
                f"{kind:16} {'found' if expected else 'called blank'} {figure}/{options.count}  slowest {slowest:.2f} s"
            )
            if options.list and wrong:
                print("   ", ", ".join(wrong))
        if total:
            shown = right if expected else total - right
            print(
                f"{'blank' if expected else 'content':16} {'found' if expected else 'called blank'} {shown}/{total} = {shown / total:.2%}\n"
            )
    return 0


def _score(kind: str, options: argparse.Namespace, *, expected: bool) -> tuple[list[str], float]:
    wrong, slowest = [], 0.0
    for seed in range(options.first, options.first + options.count):
        plugin = options.format or ("JPEG", "PDF", "JPEG", "PNG")[seed % 4]
        judging = options.judging
        scan = scan_judging.draw(kind, seed) if judging else scan_samples.draw_scan(kind, seed, wide=options.wide)
        data = scan.encoded(plugin)
        began = time.process_time()
        report = inspect(io.BytesIO(data), filename=f"scan.{plugin.lower()}")
        slowest = max(slowest, time.process_time() - began)
        if (report.outcome == "blank") is not expected:
            wrong.append(f"{seed} {plugin}{'' if report.outcome in {'blank', 'ok'} else f' {report.outcome}'}")
    return wrong, slowest


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
