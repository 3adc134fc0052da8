"""Fuzz the parsers of input other than files: forms, names, templates, JSON, tokens, keys, ranges, request heads.

    python scripts/fuzz_edge.py [TARGET ...] [--seconds 60]

Each target of `server/tests/http1/fuzz_targets.py` runs in a process of its own under atheris (libFuzzer), or on random changes
of its seeds when atheris is not installed. The exit status is 1 when a target raised an error that it must not raise.
"""

import argparse
import importlib.util
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(_ROOT / part) for part in ("inspect", "server")]  # for the tests' generators
_GRACE = 120


def main() -> int:
    """Fuzz the chosen targets and return the exit status."""
    from tests.http1.fuzz_targets import TARGETS  # noqa: PLC0415  (the fuzzing process must load atheris first)

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", metavar="TARGET", nargs="*", choices=[*TARGETS, []], help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        _fuzz(options.one, options.seconds)
        return 0
    failed = [name for name in options.targets or TARGETS if not _passes(name, options.seconds)]
    print(f"{len(options.targets or TARGETS)} targets, {len(failed)} failed")
    return 1 if failed else 0


def _passes(name: str, seconds: int) -> bool:
    command = [sys.executable, __file__, "--one", name, "--seconds", str(seconds)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=seconds + _GRACE
        )
    output = done.stdout + done.stderr
    runs = next(
        (line.rpartition(":")[2].strip() for line in output.splitlines() if "number_of_executed_units" in line), "?"
    )
    print(f"{name:12} {seconds} s {runs:>10} runs  {'ok' if done.returncode == 0 else 'FAILED'}", flush=True)
    if done.returncode != 0:
        print(output[-3000:])
    return done.returncode == 0


def _fuzz(name: str, seconds: int) -> None:
    if importlib.util.find_spec("atheris") is None:
        _change_at_random(name, seconds)
        return
    import atheris  # noqa: PLC0415  (installed only by `make fuzz-edge`)

    with atheris.instrument_imports(include=["sluice"]):
        from tests.http1.fuzz_targets import SEEDS, TARGETS  # noqa: PLC0415  (instrumented at import)
    corpus = Path.cwd() / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(SEEDS[name]):
        (corpus / str(number)).write_bytes(seed)
    atheris.Setup(
        [name, f"-max_total_time={seconds}", "-max_len=4096", "-timeout=20", "-print_final_stats=1", str(corpus)],
        TARGETS[name],
    )
    atheris.Fuzz()


def _change_at_random(name: str, seconds: int) -> None:
    from tests.http1.fuzz_targets import SEEDS, TARGETS  # noqa: PLC0415  (as above)

    source = random.Random(7)  # noqa: S311  (repeatable changes, no secret)
    end, runs = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        data = bytearray(source.choice(SEEDS[name]))
        for _ in range(source.randint(1, 8)):
            at = source.randint(0, len(data))
            data[at : at + source.randint(0, 4)] = source.randbytes(source.randint(0, 6))
        TARGETS[name](bytes(data))
        runs += 1
    print(f"stat::number_of_executed_units: {runs}")


if __name__ == "__main__":
    sys.exit(main())
