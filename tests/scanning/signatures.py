"""Databases of any number of signatures that match nothing: what loading costs, not what is found, depends on them."""

import random
from pathlib import Path


def database_of(count: int, stem: Path) -> None:
    """Write `count` signatures beside `stem`: nine tenths hashes, the rest bodies, as in ClamAV's own databases."""
    dice = random.Random(1)
    bodies = count // 10
    hashes = count - bodies
    with stem.with_suffix(".hsb").open("w") as file:
        for number in range(hashes):
            file.write(f"{dice.randbytes(32).hex()}:{dice.randint(1000, 4_000_000)}:T.Hash-{number}:73\n")
    with stem.with_suffix(".ndb").open("w") as file:
        for number in range(bodies):
            kind = dice.choice((0, 1, 1, 1, 1, 1, 2, 3, 4, 7, 10))  # any, programs, OLE2, HTML, mail, text, PDF
            file.write(f"T.Body-{number}:{kind}:*:{dice.randbytes(dice.randint(16, 40)).hex()}\n")
