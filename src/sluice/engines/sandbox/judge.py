"""What a child's reply and its end say of the file: a result, never a pass by mistake. Nothing here waits or kills."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sluice.engines.sandbox.link import Answered, Babbled, Gone, Late, Reply, Unread
from sluice.engines.sandbox.program import Ending
from sluice.engines.sandbox.protocol import Away, Died, Job, Overran, Ran, RunResult
from sluice.engines.sandbox.tray import Tray

_MB: Final = 1024**2
_WHY_MAX: Final = 300
_NEARLY_ALL: Final = 0.8
_MUCH: Final = 0.5
_TRY_WALL_SECONDS: Final = 5.0
_TRY_CPU_SECONDS: Final = 2
TRIED_FIRST: Final[Job] = "inspect"
"""A job that is only tried: what does not succeed at once in little time is asked for again, part by part."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What one file may take. Seconds grow with its size; memory is address space beyond what a child has when it starts."""

    wall_seconds: float = 40.0
    wall_seconds_per_mb: float = 0.05
    cpu_seconds: float = 25.0
    cpu_seconds_per_mb: float = 0.05
    memory_bytes: int = 1024 * _MB

    def wall_for(self, size: int, job: Job) -> float:
        """Answer the wall clock seconds for a job on a file of `size` bytes."""
        whole = self.wall_seconds + self.wall_seconds_per_mb * size / _MB
        return min(whole, _TRY_WALL_SECONDS) if job == TRIED_FIRST else whole

    def cpu_for(self, size: int, job: Job) -> int:
        """Answer the whole processor seconds for a job on a file of `size` bytes; the kernel counts no finer."""
        whole = max(1, round(self.cpu_seconds + self.cpu_seconds_per_mb * size / _MB))
        return min(whole, _TRY_CPU_SECONDS) if job == TRIED_FIRST else whole


def judge(reply: Reply, ending: Ending | None, *, memory_bytes: int, ms: float) -> RunResult:
    """Answer what became of the file. `ending` is how the child ended, where it did; `memory_bytes` its limit with what it began with."""
    match reply:
        case Answered(body):
            return _from_answer(body, ms)
        case Babbled(why):
            return Died(why, ms)
        case Late():
            return Overran("wall", ms)
        case Unread():
            return Away("the child was stuck before it took the file")
        case Gone():
            return _from_ending(ending, memory_bytes, ms)


def took_its_hands_off(reply: Reply, tray: Tray | None) -> Reply:
    """Answer the reply, or that the child babbled when it answered and kept hold of the memory that it was lent.

    An answer other than `ran` leaves the tray open: the file may be tried again in another child.
    """
    if tray is None or not isinstance(reply, Answered) or "ran" not in reply.body or tray.seal():
        return reply
    return Babbled("it kept hold of the memory that it was lent")


def is_worn(reply: Reply) -> bool:
    """Answer whether the child that replied so must not work on."""
    return not isinstance(reply, Answered) or "ran" not in reply.body or reply.body.get("worn") is not False


def _from_answer(body: Mapping[str, object], ms: float) -> RunResult:
    match body:
        case {"ran": dict(payload), "worn": bool()} if len(body) == len(("ran", "worn")):
            return Ran(payload, ms)
        case {"overran": "memory", "worn": bool()}:
            return Overran("memory", ms)
        case {"raised": str(why), "worn": bool()}:
            return Died(why[:_WHY_MAX], ms)
    return Died("its answer is of no known form", ms)


def _from_ending(ending: Ending | None, memory_bytes: int, ms: float) -> RunResult:
    if ending is None:
        return Away("the children's parent ended")
    if ending.status == -signal.SIGXCPU:
        return Overran("cpu", ms)
    killed = ending.status == -signal.SIGKILL  # not by us yet: by a person, or by a machine without memory
    if ending.status < 0 and ending.peak_bytes >= (_MUCH if killed else _NEARLY_ALL) * memory_bytes:
        return Overran("memory", ms)
    if killed:
        return Away("the child was killed from outside, or hung up")
    if ending.status < 0:
        return Died(f"ended by {_signal_name(-ending.status)}", ms)
    return Died(f"ended with status {ending.status}", ms)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
