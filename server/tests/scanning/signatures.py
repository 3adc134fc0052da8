"""Databases of many signatures that match nothing: they only make loading slow."""

import random
from pathlib import Path


def database_of(count: int, stem: Path) -> None:
    """Write `count` signatures beside `stem`: nine tenths hashes, the rest body signatures, as ClamAV has."""
    rng = random.Random(1)
    bodies = count // 10
    hashes = count - bodies
    with stem.with_suffix(".hsb").open("w") as file:
        for number in range(hashes):
            file.write(f"{rng.randbytes(32).hex()}:{rng.randint(1000, 4_000_000)}:T.Hash-{number}:73\n")
    with stem.with_suffix(".ndb").open("w") as file:
        for number in range(bodies):
            kind = rng.choice((0, 1, 1, 1, 1, 1, 2, 3, 4, 7, 10))  # any, programs, OLE2, HTML, mail, text, PDF
            file.write(f"T.Body-{number}:{kind}:*:{rng.randbytes(rng.randint(16, 40)).hex()}\n")
