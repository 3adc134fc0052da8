"""The process of one entry: run inputs until the time is over and keep the findings. Started by `scripts/fuzz.py`.

python -m fuzzing.entry FORMAT[+FORMAT...] SECONDS FOLDER SCRATCH SEED atheris|plain
"""

import hashlib
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_MAX_INPUT_BYTES: Final = 64 * 1024
_REPORT_EVERY: Final = 50
_HANGS_AFTER_SECONDS: Final = 300
"""Wall clock seconds of one input, which are many since a busy machine must not count as a hang."""


def main(name: str, seconds: float, folder: Path, scratch: Path, seed: int, *, plain: bool) -> None:
    """Fuzz these formats for `seconds`, including the time to load, which is long on a busy machine.

    All inputs have the extension of the first format. The content of the others is recognized under any name.
    """
    end = time.monotonic() + seconds
    sys.path.insert(0, str(Path(__file__).parents[2] / "inspect"))  # for the tests\' generators
    if not plain:
        import atheris  # noqa: PLC0415  (needed by this script only)

        with atheris.instrument_imports(include=["sluice_inspect"]):
            import sluice_inspect.inspection  # noqa: F401, PLC0415  (instrumented at import)
    from fuzzing.examine import examine  # noqa: PLC0415  (loads the parsers, which must be instrumented first)
    from fuzzing.outcome import Outcome  # noqa: PLC0415
    from fuzzing.seeds import seeds  # noqa: PLC0415
    from sluice_inspect.inspection import preload  # noqa: PLC0415
    from sluice_inspect.registry import FORMATS  # noqa: PLC0415

    preload()
    report = scratch / "outcome.json"
    formats = [each for part in name.split("+") for each in FORMATS if each.name == part]
    outcome = Outcome()

    def run(data: bytes) -> None:
        outcome.runs += 1
        finding = examine(formats[0], data)
        if finding is not None and finding not in outcome.found:
            outcome.found.append(finding)
            (folder / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)
        if outcome.runs % _REPORT_EVERY == 1 or finding is not None:
            outcome.write(report)

    corpus = [data for each in formats for data in seeds(each) if len(data) <= _MAX_INPUT_BYTES]
    for data in corpus:
        run(data)
    if plain:
        _change_at_random(run, corpus, end, seed)
        outcome.write(report)
    else:
        import atexit  # noqa: PLC0415

        atexit.register(lambda: outcome.write(report))
        _fuzz_with_atheris(
            run, _write_corpus(corpus, scratch / "corpus"), end - time.monotonic(), seed, folder / f"{name}-"
        )


def _write_corpus(corpus: list[bytes], folder: Path) -> Path:
    folder.mkdir()
    for number, data in enumerate(corpus):
        (folder / str(number)).write_bytes(data)
    return folder


def _fuzz_with_atheris(run: Callable[[bytes], None], corpus: Path, seconds: float, seed: int, artifacts: Path) -> None:
    import atheris  # noqa: PLC0415  (needed by this script only)

    options = [
        f"-max_total_time={max(1, int(seconds))}",
        f"-max_len={_MAX_INPUT_BYTES}",
        f"-seed={seed + 1}",
        f"-timeout={_HANGS_AFTER_SECONDS}",
        "-rss_limit_mb=2048",
        f"-artifact_prefix={artifacts}",
        str(corpus),
    ]
    atheris.Setup([sys.argv[0], *options], run)
    atheris.Fuzz()


def _change_at_random(run: Callable[[bytes], None], corpus: list[bytes], end: float, seed: int) -> None:
    source = random.Random(seed)  # noqa: S311  (repeatable, no secret)
    while time.monotonic() < end:
        run(_changed(source, corpus))


def _changed(source: random.Random, corpus: list[bytes]) -> bytes:
    data = bytearray(source.choice(corpus))
    for _ in range(source.choice((1, 1, 2, 4, 16))):
        at = source.randrange(len(data) + 1)
        size = source.choice((1, 2, 4, 8, 64, 512))
        match source.randrange(6):
            case 0:
                data[at : at + size] = source.randbytes(size)
            case 1:
                data[at : at + size] = source.choice((b"\0", b"\xff", b"\x7f")) * size
            case 2:
                del data[at : at + size]
            case 3:
                other = source.choice(corpus)
                start = source.randrange(len(other) + 1)
                data[at:at] = other[start : start + size]
            case 4:
                data[at:at] = data[at : at + size]
            case _:
                del data[at:]
    return bytes(data[:_MAX_INPUT_BYTES])


if __name__ == "__main__":
    format_names, seconds_text, found, scratch_folder, seed_text, how = sys.argv[1:]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(format_names, float(seconds_text), Path(found), Path(scratch_folder), int(seed_text), plain=how == "plain")
