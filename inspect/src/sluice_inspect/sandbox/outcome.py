"""The outcome for a file, from the worker's reply and exit.

Nothing here waits or kills; no unclear reply becomes a pass.
"""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.sandbox.channel import Exited, JobReply, ProtocolError, Reply, TimedOut, Unread
from sluice_inspect.sandbox.protocol import Completed, Crashed, NoWorker, OverLimit, RunResult

_WHY_MAX: Final = 300
_REPLY_FIELDS: Final = 2
# A worker that died near its memory limit is taken to have died of it: a failed allocation often ends in a crash. The
# kernel's out-of-memory killer (SIGKILL) acts earlier, when the machine has no more to give.
_NEAR_LIMIT: Final = 0.8
_NEAR_LIMIT_IF_KILLED: Final = 0.5


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a worker exited: its exit status, or minus the signal; and the peak of its resident memory."""

    status: int
    peak_bytes: int


def run_result(reply: Reply, exit_status: ExitStatus | None, *, memory_bytes: int, ms: float) -> RunResult:
    """Return the outcome for the file.

    `exit_status` is None unless the worker exited and its status is known. `memory_bytes` is its limit and what it
    began with together.
    """
    match reply:
        case JobReply(body):
            return _result_of_reply(body, ms)
        case ProtocolError(why):
            return Crashed(why, ms)
        case TimedOut():
            return NoWorker(f"the worker was still at work after {ms / 1000:.0f} s: the machine is too busy")
        case Unread():
            return NoWorker("the worker was stuck before it read the file")
        case Exited():
            return _result_of_exit(exit_status, memory_bytes, ms)


def require_sealed(reply: Reply, buffer: SharedBuffer | None) -> Reply:
    """Seal `buffer` and return the reply, or `ProtocolError` if the worker gave a result and kept write access.

    A reply without a result leaves the buffer open: the job may be tried again in another worker.
    """
    if buffer is None or not isinstance(reply, JobReply) or "result" not in reply.body or buffer.seal():
        return reply
    return ProtocolError("it kept hold of the memory that it was lent")


def is_reusable(reply: Reply) -> bool:
    """Return whether the worker that replied so may work on other files."""
    return isinstance(reply, JobReply) and "result" in reply.body and reply.body.get("recycle") is False


def _result_of_reply(body: Mapping[str, object], ms: float) -> RunResult:
    match body:
        case {"result": dict(payload), "recycle": bool()} if len(body) == _REPLY_FIELDS:
            return Completed(payload, ms)
        case {"over_limit": "memory", "recycle": bool()}:
            return OverLimit("memory", ms)
        case {"raised": str(why), "recycle": bool()}:
            return Crashed(why[:_WHY_MAX], ms)
    return Crashed("its reply is of no known form", ms)


def _result_of_exit(exit_status: ExitStatus | None, memory_bytes: int, ms: float) -> RunResult:
    if exit_status is None:
        return NoWorker("the zygote ended")
    status = exit_status.status
    if status == -signal.SIGXCPU:
        return OverLimit("cpu", ms)
    was_killed = status == -signal.SIGKILL  # not by us: by an operator, or by the kernel for lack of memory
    if status < 0 and exit_status.peak_bytes >= (_NEAR_LIMIT_IF_KILLED if was_killed else _NEAR_LIMIT) * memory_bytes:
        return OverLimit("memory", ms)
    if was_killed:
        return NoWorker("the worker was killed from outside, or closed its socket")
    if status >= 0:
        return Crashed(f"ended with status {status}", ms)
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return Crashed(f"ended by {name}", ms)
