"""A scanner behind a cache of verdicts: which answers are kept, for whom, and what a cache that is away costs."""

from collections.abc import Sequence

import pytest

from sluice.engines.scanner import Clean, Edition, FindsReach, Glance, Incomplete, Infected, ScanResult, Unavailable
from sluice.engines.scanner.builtin import BuiltinScanner
from sluice.engines.scanner.cached import CachedScanner
from sluice.engines.verdicts.memory import MemoryVerdicts
from sluice.engines.verdicts.redis import RedisVerdicts
from sluice.kit.health import EngineHealth, EngineState
from sluice.kit.sealed import Sealed
from tests.engines.scanner.conftest import Seal
from tests.engines.scanner.twin import InProcessSandbox
from tests.servers import free_port
from tests.threats.packing import EICAR


class Says:
    """A scanner that answers what it is told, in turn, the last for ever; `edition` is what a verdict of now would hold for."""

    name = "says"
    reach: int | None = 7

    def __init__(self, *answers: ScanResult, edition: Edition | None = None) -> None:
        self.answers: Sequence[ScanResult] = answers
        self.edition = edition
        self.asked = 0
        self.closed = False

    async def scan(
        self,
        sealed: Sealed,  # noqa: ARG002  (the protocol's signature)
        *,
        tenant_id: str,  # noqa: ARG002  (the same)
        glance: Glance | None = None,  # noqa: ARG002  (the same)
    ) -> ScanResult:
        self.asked += 1
        return self.answers[min(self.asked, len(self.answers)) - 1]

    async def health(self) -> EngineHealth:
        return EngineHealth("scanner", self.name, EngineState.UP, limits={"signatures": "1"})

    async def aclose(self) -> None:
        self.closed = True


E1, E2 = Edition("says 1", "1"), Edition("says 1", "2")
CLEAN_1, CLEAN_2 = Clean("says 1", "1", 9.0, "unix:/a", flags=("macro",)), Clean("says 1", "2", 9.0)


def cached(scanner: Says, verdicts: MemoryVerdicts | None = None, *, terms: str = "", per_tenant: bool = False) -> CachedScanner:
    return CachedScanner(scanner, verdicts or MemoryVerdicts(), terms=terms, per_tenant=per_tenant)


async def test_the_same_bytes_are_scanned_once(seal: Seal) -> None:
    scanner = Says(CLEAN_1, edition=E1)
    behind = cached(scanner)
    first = await behind.scan(seal(b"x"), tenant_id="ten_1")
    second = await behind.scan(seal(b"x"), tenant_id="ten_2")
    assert (first, scanner.asked) == (CLEAN_1, 1)
    assert isinstance(second, Clean)
    assert (second.engine, second.signatures, second.member, second.flags) == ("says 1", "1", "unix:/a", ("macro",))
    assert second.cached
    assert second.ms < 9.0


async def test_signatures_without_a_number_keep_nothing(seal: Seal) -> None:
    scanner = Says(Clean("says 1", "", 9.0), edition=Edition("says 1", ""))
    behind = cached(scanner)
    assert [await behind.scan(seal(b"x"), tenant_id="ten_1") for _ in range(2)] == [scanner.answers[0]] * 2
    assert scanner.asked == 2


async def test_other_bytes_are_scanned(seal: Seal) -> None:
    scanner = Says(CLEAN_1, edition=E1)
    behind = cached(scanner)
    await behind.scan(seal(b"x"), tenant_id="ten_1")
    await behind.scan(seal(b"y"), tenant_id="ten_1")
    assert scanner.asked == 2


@pytest.mark.parametrize(
    "answer",
    [Infected("Eicar", "says 1", "1", 1.0), Incomplete("a limit", "says 1", "1", 1.0), Unavailable("away", "says")],
    ids=lambda answer: type(answer).__name__,
)
async def test_only_clean_is_kept(seal: Seal, answer: ScanResult) -> None:
    scanner = Says(answer, edition=E1)
    behind = cached(scanner)
    assert [await behind.scan(seal(b"x"), tenant_id="ten_1") for _ in range(3)] == [answer] * 3
    assert scanner.asked == 3


async def test_new_signatures_scan_again(seal: Seal) -> None:
    infected = Infected("New", "says 1", "2", 1.0)
    scanner = Says(CLEAN_1, infected, edition=E1)
    behind = cached(scanner)
    await behind.scan(seal(b"x"), tenant_id="ten_1")
    scanner.edition = E2
    assert await behind.scan(seal(b"x"), tenant_id="ten_1") == infected


async def test_a_verdict_by_older_signatures_than_the_newest_is_not_taken_for_one_by_the_newest(seal: Seal) -> None:
    """In a pool whose members are updated one by one."""
    scanner = Says(CLEAN_1, CLEAN_2, edition=E2)
    behind = cached(scanner)
    answers = [await behind.scan(seal(b"x"), tenant_id="ten_1") for _ in range(3)]
    assert (answers[:2], scanner.asked) == ([CLEAN_1, CLEAN_2], 2)


async def test_while_the_edition_is_not_known_nothing_is_answered_from_the_cache(seal: Seal) -> None:
    """No clamd is in service, or its signatures have no number."""
    scanner = Says(CLEAN_1, Unavailable("away", "says"), edition=E1)
    behind = cached(scanner)
    await behind.scan(seal(b"x"), tenant_id="ten_1")
    scanner.edition = None
    assert isinstance(await behind.scan(seal(b"x"), tenant_id="ten_1"), Unavailable)


async def test_a_verdict_without_a_number_of_signatures_is_not_kept(seal: Seal) -> None:
    verdicts = MemoryVerdicts()
    await cached(Says(Clean("says 1", "", 1.0)), verdicts).scan(seal(b"x"), tenant_id="ten_1")
    assert (await verdicts.health()).limits["verdicts"] == 0


async def test_bytes_without_a_digest_are_never_answered_from_the_cache(seal: Seal) -> None:
    scanner = Says(CLEAN_1, edition=E1)
    behind = cached(scanner)
    for data in (b"x", b"y"):
        await behind.scan(Sealed(seal(data).fd, 1, b""), tenant_id="ten_1")
    assert scanner.asked == 2


async def test_under_other_terms_it_is_scanned_again(seal: Seal) -> None:
    verdicts, scanner = MemoryVerdicts(), Says(CLEAN_1, edition=E1)
    await cached(scanner, verdicts, terms="passwords allowed").scan(seal(b"x"), tenant_id="ten_1")
    await cached(scanner, verdicts, terms="passwords refused").scan(seal(b"x"), tenant_id="ten_1")
    assert scanner.asked == 2


async def test_per_tenant_nobody_learns_what_another_sent(seal: Seal) -> None:
    scanner = Says(CLEAN_1, edition=E1)
    behind = cached(scanner, per_tenant=True)
    for tenant in ("ten_1", "ten_2", "ten_1"):
        await behind.scan(seal(b"x"), tenant_id=tenant)
    assert scanner.asked == 2


async def test_a_cache_that_is_away_costs_no_scan_and_is_told(seal: Seal) -> None:
    scanner = Says(CLEAN_1, edition=E1)
    behind = CachedScanner(scanner, RedisVerdicts(f"redis://127.0.0.1:{free_port()}/0", secret=b"s" * 32), terms="")
    assert [await behind.scan(seal(b"x"), tenant_id="ten_1") for _ in range(2)] == [CLEAN_1] * 2
    health = await behind.health()
    assert (health.kind, health.state) == ("scanner", EngineState.DEGRADED)
    assert "the cache of verdicts is away" in health.detail


async def test_it_stands_for_the_scanner_behind_it(seal: Seal) -> None:
    scanner = Says(CLEAN_1, edition=E1)
    behind = cached(scanner)
    assert (behind.name, behind.edition, behind.reach) == ("says", E1, 7)
    assert isinstance(behind, FindsReach)
    await behind.find_reach(1)
    health = await behind.health()
    assert (health.state, health.limits["signatures"], health.limits["cache"]) == (EngineState.UP, "1", "memory")
    await behind.aclose()
    assert scanner.closed


async def test_the_test_virus_is_found_every_time_by_the_rules_behind_a_cache(seal: Seal) -> None:
    behind = CachedScanner(BuiltinScanner(InProcessSandbox()), MemoryVerdicts(), terms="")
    answers = [await behind.scan(seal(data), tenant_id="ten_1") for data in (b"x", EICAR, b"x", EICAR)]
    assert [type(answer) for answer in answers] == [Clean, Infected, Clean, Infected]
    assert [isinstance(answer, Clean) and answer.cached for answer in answers] == [False, False, True, False]
