"""A packed part of a file, as an opener hands it to the walk, and what an opener raises. Opens nothing itself."""

from collections.abc import Iterator
from dataclasses import dataclass


class Locked(Exception):
    """It opens with a password only."""


class Unknown(Exception):
    """It is packed in a way that is not known here. `str()` names the packing in a word or two."""


@dataclass(frozen=True, slots=True)
class Part:
    """`content` are its unpacked bytes, read once and in order; `name` what the file calls it, empty where it does not.

    `unseen` tells that clamd does not open this kind of packing, or not reliably. `kind` names bytes that have no form of their own by which
    they could be told: the source of a macro, a script, the target of an action. `is_picture` tells bytes that only a part by part scan needs.
    """

    name: str
    content: Iterator[bytes]
    unseen: bool = False
    kind: str = ""
    is_picture: bool = False
