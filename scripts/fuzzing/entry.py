"""The process of one entry: runs inputs until the time is over and keeps what was found. Called by `scripts/fuzz.py`, never by hand.

python -m fuzzing.entry KIND[+KIND...] SECONDS FOLDER SCRATCH SEED atheris|plain
"""

import hashlib
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_INPUT_MOST: Final = 64 * 1024
_REPORT_EACH: Final = 50


def main(name: str, seconds: float, folder: Path, scratch: Path, seed: int, *, plain: bool) -> None:
    """Fuzz the kinds of these names, until `seconds` after now: loading counts as well, and takes long on a busy machine.

    The first gives the inputs their extension. The others' content is known whatever its name is, and judged by its own kind.
    """
    end = time.monotonic() + seconds
    sys.path.insert(0, str(Path(__file__).parents[2]))  # the tests, which make some of the corpus
    if not plain:
        import atheris  # noqa: PLC0415  (an extra of this script alone)

        with atheris.instrument_imports(include=["sluice.formats"]):
            import sluice.formats.check  # noqa: F401, PLC0415  (instrumented only when it is loaded here)
    from fuzzing.examine import examine  # noqa: PLC0415  (loads the parsers, which must be instrumented before)
    from fuzzing.outcome import Outcome  # noqa: PLC0415
    from fuzzing.seeds import seeds  # noqa: PLC0415
    from sluice.formats.check import preload  # noqa: PLC0415
    from sluice.formats.registry import KINDS  # noqa: PLC0415

    preload()
    report = scratch / "outcome.json"
    kinds = [kind for wanted in name.split("+") for kind in KINDS if kind.name == wanted]
    outcome = Outcome()

    def one(data: bytes) -> None:
        outcome.runs += 1
        said = examine(kinds[0], data)
        if said is not None and said not in outcome.found:
            outcome.found.append(said)
            (folder / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)
        if outcome.runs % _REPORT_EACH == 1 or said is not None:
            outcome.write(report)

    corpus = [data for kind in kinds for data in seeds(kind) if len(data) <= _INPUT_MOST]
    for data in corpus:
        one(data)
    if plain:
        _change_at_random(one, corpus, end, seed)
        outcome.write(report)
    else:
        import atexit  # noqa: PLC0415

        atexit.register(lambda: outcome.write(report))
        _let_atheris_change(one, _written(corpus, scratch / "corpus"), end - time.monotonic(), seed, folder / f"{name}-")


def _written(corpus: list[bytes], folder: Path) -> Path:
    folder.mkdir()
    for number, data in enumerate(corpus):
        (folder / str(number)).write_bytes(data)
    return folder


def _let_atheris_change(one: Callable[[bytes], None], corpus: Path, seconds: float, seed: int, artifacts: Path) -> None:
    import atheris  # noqa: PLC0415  (an extra of this script alone)

    options = [
        f"-max_total_time={max(1, int(seconds))}",
        f"-max_len={_INPUT_MOST}",
        f"-seed={seed + 1}",
        "-timeout=60",
        "-rss_limit_mb=2048",
        f"-artifact_prefix={artifacts}",
        str(corpus),
    ]
    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


def _change_at_random(one: Callable[[bytes], None], corpus: list[bytes], end: float, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  (repeatable, no secret)
    while time.monotonic() < end:
        one(_changed(chance, corpus))


def _changed(chance: random.Random, corpus: list[bytes]) -> bytes:
    data = bytearray(chance.choice(corpus))
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        at = chance.randrange(len(data) + 1)
        size = chance.choice((1, 2, 4, 8, 64, 512))
        match chance.randrange(6):
            case 0:
                data[at : at + size] = chance.randbytes(size)
            case 1:
                data[at : at + size] = chance.choice((b"\0", b"\xff", b"\x7f")) * size
            case 2:
                del data[at : at + size]
            case 3:
                other = chance.choice(corpus)
                start = chance.randrange(len(other) + 1)
                data[at:at] = other[start : start + size]
            case 4:
                data[at:at] = data[at : at + size]
            case _:
                del data[at:]
    return bytes(data[:_INPUT_MOST])


if __name__ == "__main__":
    kind_name, time_given, found, left_in, number, how = sys.argv[1:]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(kind_name, float(time_given), Path(found), Path(left_in), int(number), plain=how == "plain")
