"""The contract of the sandbox: jobs, their limits, their results, and the `Sandbox` protocol."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from sluice_inspect.child.protocol import Level
from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.extensions import extension_of
from sluice_inspect.format_list import LIST
from sluice_inspect.sandbox.sealed import Sealed

# What a worker can be asked to do with a file. `check` checks its format, `scan` looks for known threats,
# `check_and_scan` does both in one short run. `extract_hidden` scans and also writes the parts that clamd does not see
# to a shared buffer, `extract_all` writes every part. `hash_members` writes the SHA-256 of every part, and
# `hash_members_weak` its MD5 and SHA-1 as well. `preview_200` and `preview_1200` write the pixels of a preview whose
# longer side has at most 200 or 1,200. The `sanitise` jobs write what is left of the file without what they name.
# `match_text` answers the question in the shared buffer about the text of the file. `read_kind_terms` returns the words
# of an example of a kind of documents, `learn_kind` what the examples in the file have in common, and `compare_kind`
# how alike the file is to the kind in the shared buffer.
Job = Literal[
    "check",
    "check_legible",
    "scan",
    "check_and_scan",
    "check_legible_and_scan",
    "extract_hidden",
    "extract_all",
    "hash_members",
    "hash_members_weak",
    "preview_200",
    "preview_1200",
    "sanitise_metadata",
    "sanitise_active_content",
    "sanitise_metadata_and_active_content",
    "sanitise_pixels",
    "match_text",
    "read_kind_terms",
    "learn_kind",
    "compare_kind",
]

_MB: Final = 1024**2
# `check_and_scan` is an attempt: callers fall back to `check` and `scan`, each with its own limits, so this one must
# fail fast. A preview or a text is no reason to work on a file for long.
_CPU_SECONDS_MOST: Final[Mapping[Job, int]] = {
    "check_and_scan": 2,
    "check_legible_and_scan": 2,
    "preview_200": 10,
    "preview_1200": 10,
    "match_text": 20,
    "read_kind_terms": 20,
    "learn_kind": 20,
    "compare_kind": 20,
}


def is_attempt(job: Job) -> bool:
    """Return whether `job` is only an attempt, which is not retried: its caller falls back to other jobs."""
    return job in {"check_and_scan", "check_legible_and_scan"}


@dataclass(frozen=True, slots=True)
class JobLimits:
    """The resources that one job may use.

    Seconds grow with the file's size; memory is address space beyond what a worker has when it starts. Processor time
    and memory are what a file costs, so that they decide about it. A job that is still at work after `wall_seconds` by
    the clock has got too little of the processor, or hangs: it ends without a result.
    """

    wall_seconds: float = 300.0
    wall_seconds_per_mb: float = 0.05
    cpu_seconds: float = 25.0
    cpu_seconds_per_mb: float = 0.05
    memory_bytes: int = 1024 * _MB

    def for_job(self, job: Job, size: int) -> tuple[int, float]:
        """Return whole processor seconds and wall clock seconds of a job on a file of `size` bytes."""
        cpu_seconds = max(1, round(self.cpu_seconds + self.cpu_seconds_per_mb * size / _MB))
        wall_seconds = self.wall_seconds + self.wall_seconds_per_mb * size / _MB
        return min(cpu_seconds, _CPU_SECONDS_MOST.get(job, cpu_seconds)), wall_seconds


class SandboxBroken(Exception):
    """The sandbox cannot be trusted with untrusted bytes here.

    `str()` says why: the level that cannot be reached, or the formats that failed.
    """


@dataclass(frozen=True, slots=True)
class Completed:
    """The worker replied.

    `payload` is its JSON object, bounded in size and otherwise untrusted: a worker may be taken over by a file.
    `checks` are the operator's own checks that the job had to make, also of the other results.
    """

    payload: Mapping[str, object]
    ms: float
    checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Crashed:
    """The worker exited or violated the protocol while it worked on this file."""

    why: str
    ms: float
    checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OverLimit:
    """The worker was stopped at a limit: processor time or memory."""

    limit: Literal["cpu", "memory"]
    ms: float
    checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoWorker:
    """No worker was available, or it got too little time. The fault is ours, not the file's."""

    why: str


RunResult = Completed | Crashed | OverLimit | NoWorker


@dataclass(frozen=True, slots=True)
class SandboxHealth:
    """The state of a sandbox.

    `degraded` works but needs attention, `down` cannot check a file; `detail` says why it is not up. `limits` has the
    level, the numbers of workers and runs, and how often the zygote was restarted.
    """

    state: Literal["up", "degraded", "down"]
    detail: str
    limits: Mapping[str, int | str]


# With more, to load all formats costs no more than to load each.
_FEW: Final = 8


@dataclass(frozen=True, slots=True)
class FewFiles:
    """What a command is about to check: files of these extensions, which are searched for threats if `scanned`."""

    extensions: frozenset[str]  # of formats; one of no format is empty: any format may be in such a file
    scanned: bool

    @classmethod
    def named(cls, names: Iterable[str], *, scanned: bool) -> "FewFiles | None":
        """Return the files of these names, None if they are of many formats."""
        known = frozenset(extension for each in LIST.values() for extension in each.extensions)
        extensions = frozenset(found if found in known else "" for found in map(extension_of, names))
        return cls(extensions, scanned) if len(extensions) <= _FEW else None


@dataclass(frozen=True, slots=True)
class OperatorRules:
    """Compiled YARA rules of the operator, in a sealed file in memory; `version` is a digest of their sources."""

    version: str
    fd: int


class RulesBroken(Exception):
    """The operator's rules cannot be compiled. `str()` names file and line, and says why."""


class RulesUnavailable(Exception):
    """The operator's rules were not compiled for a reason that may not lie in them. `str()` says why."""


@dataclass(frozen=True, slots=True)
class CompiledRules:
    """Compiled rules, and what was found out about them.

    `slow` names files of rules that take long, with milliseconds for a sample of 1 MiB; `slow_patterns` are files and
    lines; `match_everything` are rules, as `file:rule`, that match every one of some harmless files. `not_kept` says
    why their sources could not be kept, if they were to be.
    """

    rules: OperatorRules
    files: int
    slow: tuple[tuple[str, int], ...] = ()
    slow_patterns: tuple[str, ...] = ()
    ms_per_mb: float = 0.0
    match_everything: tuple[str, ...] = ()
    not_kept: str = ""


class Sandbox(Protocol):
    """Runs jobs on sealed bytes in confined worker processes."""

    # The confinement level that was reached; known once `begin` has returned.
    level: Level

    async def begin(self) -> None:
        """Find the level. Raise `SandboxBroken` if workers cannot be confined here."""
        ...

    def prepare(self) -> None:
        """Begin to load every format and to check one good file of each. Runs begin it as well, and wait for it.

        If a format fails, every run returns `NoWorker`, and the health is down and names the formats that failed.
        """
        ...

    async def start(self, *, every_format: bool = True, only: FewFiles | None = None) -> None:
        """Begin, load every format and check one good file of each. Raise `SandboxBroken` naming those that failed.

        Without `every_format` only the first one is tested, which shows that workers work here. With `only`, no more is
        loaded than those files need if they are what their names say; the first other file has the rest loaded.
        """
        ...

    async def use_rules(self, rules: OperatorRules) -> str:
        """Apply these rules to every file of which a scan begins after this, and close their descriptor in the end.

        Return what is wrong with them, or nothing; if something is, the rules from before are applied. Rules that could
        not be loaded yet are loaded with the formats.
        """
        ...

    async def run(
        self,
        job: Job,
        sealed: Sealed,
        *,
        filename: str,
        tenant_id: str,
        buffer: SharedBuffer | None = None,
        ocr: Sequence[str] = (),
    ) -> RunResult:
        """Run `job` on the bytes. A worker is only ever reused for files of the same tenant.

        The caller owns and closes `buffer`. Its content is sealed if the result is `Completed`, and meaningless
        otherwise. With `ocr`, the worker has the models of OCR for languages of these names, and works on no other
        file. Never raises for anything that the file or the worker does. Cancelling the call kills the worker.
        """
        ...

    async def health(self) -> SandboxHealth:
        """Return the health. Never raises."""
        ...

    async def aclose(self) -> None:
        """End every worker. A second call is a no-op."""
        ...
