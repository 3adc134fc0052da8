"""The supervisor of several server processes: starts them, replaces those that die, drains all of them.

It loads the code of a server before it forks the first process, and does nothing else with it: no event loop, no
thread, no connection. So a process costs milliseconds, shares the memory of the code, and a replacement serves at once.
The zygote of their sandbox is one for all of them, launched here and replaced when it dies.
"""

import contextlib
import gc
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sluice.cli.processes import ServerProcess, zygote_path
from sluice.kit.libc import die_with_parent
from sluice.observe.log import log
from sluice.wiring.prestart import IsolatedProcess, launch_shared_zygote, open_zygote_socket
from sluice_client.cli.output import Exit
from sluice_inspect.sandbox.protocol import JobLimits

_SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD})
_LOOK_SECONDS: Final = 0.05  # between two looks whether a process that starts is ready
_IDLE_SECONDS: Final = 3600.0
_STEADY_SECONDS: Final = 10.0  # a process that ran this long did not fail at its start
_LONGEST_PAUSE: Final = 30.0
_GRACE_SECONDS: Final = 15.0  # that a drain may take beyond its own limit
_FROM_KERNEL: Final = 0x80  # si_code of the SIGHUP of a terminal that has gone


@dataclass(slots=True)
class _Place:
    """One process of the server, and the state of the one before it. `pid` is 0 while none runs."""

    number: int
    pid: int = 0
    ready_fd: int = -1
    is_ready: bool = False
    started_at: float = 0.0
    start_at: float = 0.0
    quick_deaths: int = 0


class _SharedZygote:
    """The zygote that the processes share, and the socket at which it serves them, in `folder`.

    A process that connects while there is no zygote is served by the next one.
    """

    def __init__(self, folder: Path) -> None:
        self.start_at: float | None = 0.0  # when it is launched; None while it runs
        self._listener = open_zygote_socket(zygote_path(folder))
        self._process: IsolatedProcess | None = None
        self._started_at = 0.0
        self._quick_deaths = 0

    def keep_up(self) -> None:
        """Launch it, if it does not run and it is time."""
        now = time.monotonic()
        process = self._process
        if process is not None and (code := process.poll()) is not None:
            self._quick_deaths = self._quick_deaths + 1 if now - self._started_at < _STEADY_SECONDS else 0
            self.start_at = now + _pause_after(self._quick_deaths)
            why = process.last_error_line() or (f"signal {-code}" if code < 0 else f"exit code {code}")
            log.error("zygote_died", process_id=process.pid, why=why, again_in_seconds=self.start_at - now)
            process.end()
            self._process = None
        if self._process is None and self.start_at is not None and now >= self.start_at:
            self._started_at = now
            try:
                self._process = launch_shared_zygote(self._listener, memory_bytes=JobLimits().memory_bytes)
            except OSError as error:
                log.error("zygote_not_started", why=str(error))
                self.start_at = now + _LONGEST_PAUSE
            else:
                self.start_at = None

    def forget(self) -> None:
        """Close, in a new process, what belongs to the supervisor."""
        self._listener.close()

    def end(self) -> None:
        """Kill it; its workers end with it."""
        self._listener.close()
        if self._process is not None:
            self._process.end()


class ProcessSupervisor:
    """The processes of one server that share the socket `listener`."""

    def __init__(self, count: int, listener: socket.socket, drain_seconds: float, load: Callable[[], None]) -> None:
        """`load` loads the code of a server; it is called in the supervisor before the first process starts."""
        self._load = load
        self._listener = listener
        self._drain_seconds = drain_seconds
        self._places = [_Place(number) for number in range(count)]
        self._folder = Path(tempfile.mkdtemp(prefix="sluice-"))
        self._zygote = _SharedZygote(self._folder)
        self._has_served = False
        self._deadline: float | None = None  # of the drain, None before it
        self._to_renew: list[_Place] = []
        self._renewed: _Place | None = None  # the place whose process is being replaced
        self._exit_code = 0
        self._mask: set[signal.Signals] = set()

    def run(self) -> ServerProcess | int:
        """Return twice: in each new process what it is, and in the supervisor the exit code, when all have ended."""
        self._mask = set(map(signal.Signals, signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)))
        self._zygote.keep_up()
        self._load()
        gc.freeze()  # what is loaded stays shared with the processes
        process = self._start(self._places[0])
        if process is not None:
            return process
        while self._deadline is None or any(place.pid for place in self._places):
            self._note_ready()
            self._zygote.keep_up()
            for place in self._places:
                if self._may_start(place):
                    process = self._start(place)
                    if process is not None:
                        return process
            found = signal.sigtimedwait(_SIGNALS, self._pause())
            if found is not None:
                self._handle(found)
            if self._deadline is not None and time.monotonic() > self._deadline:
                log.error("processes_killed", why="they did not end in time")
                self._deadline = time.monotonic() + _GRACE_SECONDS
                self._send(signal.SIGKILL)
        self._zygote.end()
        shutil.rmtree(self._folder, ignore_errors=True)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        return self._exit_code

    def _may_start(self, place: _Place) -> bool:
        if place.pid or self._deadline is not None or time.monotonic() < place.start_at:
            return False
        # The first one migrates, makes the key files, and shows alone what is wrong with the settings.
        return self._has_served

    def _start(self, place: _Place) -> ServerProcess | None:
        """Fork a process. Return what it is in the new process, None in the supervisor."""
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        ready, announced = os.pipe()
        os.set_blocking(ready, False)
        pid = os.fork()
        if pid:
            os.close(announced)
            place.pid, place.ready_fd, place.is_ready, place.started_at = pid, ready, False, time.monotonic()
            return None
        # A supervisor that is killed leaves nothing behind that holds the port.
        die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(Exit.ERROR)
        for other in (ready, *(each.ready_fd for each in self._places if each.ready_fd >= 0)):
            os.close(other)
        self._zygote.forget()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the supervisor decides
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        return ServerProcess(place.number, len(self._places), self._folder, not self._has_served, announced)

    def _note_ready(self) -> None:
        for place in self._places:
            if place.ready_fd < 0:
                continue
            with contextlib.suppress(BlockingIOError):
                place.is_ready = bool(os.read(place.ready_fd, 1))
                self._close_pipe(place)
                self._has_served = self._has_served or place.is_ready
                if place.is_ready and place is self._renewed:
                    self._renew_next()

    def _close_pipe(self, place: _Place) -> None:
        if place.ready_fd >= 0:
            os.close(place.ready_fd)
            place.ready_fd = -1

    def _pause(self) -> float:
        if any(place.ready_fd >= 0 for place in self._places):
            return _LOOK_SECONDS
        until = [place.start_at for place in self._places if not place.pid and self._deadline is None]
        if self._zygote.start_at is not None:
            until.append(self._zygote.start_at)
        if self._deadline is not None:
            until.append(self._deadline)
        return max(_LOOK_SECONDS, min([*(moment - time.monotonic() for moment in until), _IDLE_SECONDS]))

    def _handle(self, found: signal.struct_siginfo) -> None:
        if found.si_signo == signal.SIGCHLD:
            for place in self._places:
                if place.pid:
                    pid, status = os.waitpid(place.pid, os.WNOHANG)
                    if pid:
                        self._handle_exit(place, os.waitstatus_to_exitcode(status))
        elif found.si_signo == signal.SIGHUP and found.si_code != _FROM_KERNEL:
            # Processes are replaced one after another; the others serve meanwhile.
            if self._deadline is None and self._has_served and self._renewed is None:
                log.info("processes_renewing", processes=len(self._places))
                self._to_renew = list(self._places)
                self._renew_next()
        elif self._deadline is None:
            self._drain()
        elif found.si_signo == signal.SIGINT:
            self._send(signal.SIGINT)  # the second Ctrl-C does not wait

    def _drain(self) -> None:
        """Let all processes finish their requests. The port is free as soon as they have closed it too."""
        self._deadline = time.monotonic() + self._drain_seconds + _GRACE_SECONDS
        self._listener.close()
        log.info("processes_draining", processes=sum(bool(place.pid) for place in self._places))
        for place in self._places:
            if place.pid:
                # One that only starts has no request that could end well.
                is_starting = self._has_served and place.ready_fd >= 0
                os.kill(place.pid, signal.SIGKILL if is_starting else signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        for place in self._places:
            if place.pid:
                os.kill(place.pid, number)

    def _renew_next(self) -> None:
        self._renewed = next((place for place in self._to_renew if place.pid), None)
        if self._renewed is not None:
            del self._to_renew[: self._to_renew.index(self._renewed) + 1]
            os.kill(self._renewed.pid, signal.SIGTERM)

    def _handle_exit(self, place: _Place, code: int) -> None:
        """Note the end of a process, and when its place is taken again."""
        pid, place.pid = place.pid, 0
        self._note_ready()
        has_served = place.is_ready
        self._close_pipe(place)
        if self._deadline is not None:
            if has_served and code not in {0, -signal.SIGTERM}:
                self._exit_code = max(self._exit_code, code if code > 0 else Exit.ERROR)
            return
        if not self._has_served:
            # It has said why.
            self._exit_code = code if code > 0 else Exit.ERROR if code not in {0, -signal.SIGTERM} else 0
            self._drain()
            return
        place.start_at = time.monotonic()
        if place is self._renewed and code == 0:
            return
        lived = time.monotonic() - place.started_at
        place.quick_deaths = place.quick_deaths + 1 if lived < _STEADY_SECONDS else 0
        pause = _pause_after(place.quick_deaths)
        place.start_at += pause
        why = f"signal {-code}" if code < 0 else f"exit code {code}"
        log.error("process_died", process=place.number, process_id=pid, why=why, again_in_seconds=pause)


def _pause_after(quick_deaths: int) -> float:
    """Return the pause before a restart, in seconds, after `quick_deaths` in a row."""
    return min(_LONGEST_PAUSE, 2.0 ** (quick_deaths - 2)) if quick_deaths > 1 else 0.0
