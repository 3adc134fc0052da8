"""Sums over uploads, and groups of rejections with what somebody made of them."""

from datetime import UTC, date, datetime, timedelta

from sluice.decisions import FailedSum, Mark, MarkState
from sluice.uploads.statistics import Outcomes, RejectionGroups, UploadSums, grouped
from sluice.usage import UsageRow
from tests.rows import each_row

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def failed(number: int, extension: str = "exe", day: str = "2026-01-31", actor_id: str | None = "key_1") -> FailedSum:
    report_id = f"rep_{day}_{number}"
    return FailedSum("claims", "blank_document", extension, actor_id, day, number, NOW, NOW, report_id)


def test_file_in_quarantine_counts_as_one_upload() -> None:
    sums = Outcomes.of(UsageRow("", 10, 0, 0, {"blank_document": 2, "corrupt_file": 3}, quarantined=4, undecided=1))
    assert sums == Outcomes(accepted=6, rejected=5, quarantined=4, undecided=1)
    assert sums.total == 16


def test_every_day_of_the_range_is_there_oldest_first() -> None:
    day = UsageRow("2026-01-30", 3, 0, 0, {})
    sums = UploadSums.of(day, [day], date(2026, 1, 31), 3, [9, 1, 5, 7])
    counts = [(each.isoformat(), outcomes.total) for each, outcomes in sums.days]
    assert counts == [("2026-01-29", 0), ("2026-01-30", 3), ("2026-01-31", 0)]
    assert (sums.p50_ms, sums.p95_ms, sums.measured) == (7, 9, 4)
    sums = UploadSums.of(UsageRow("", 0, 0, 0, {}), [], date(2026, 1, 31), 1, [])
    assert (sums.p50_ms, sums.p95_ms) == (None, None)


def test_groups_ignore_the_case_of_extensions_and_add_up_days() -> None:
    (group,) = grouped([failed(2), failed(1, "EXE"), failed(4, day="2026-01-30")]).values()
    assert (group.count, dict(group.by_day)) == (7, {date(2026, 1, 31): 3, date(2026, 1, 30): 4})
    assert group.newest_report_id == "rep_2026-01-31_2"
    one, other = failed(1, "a"), failed(1, "", actor_id="a")  # words that only meet
    assert len(grouped([one, other, failed(1, "", actor_id=None)])) == 3


@each_row(
    ("state", "seen", "now"),
    [
        ("reviewed", "rep_2026-01-31_1", "reviewed"),
        ("reviewed", "rep_2026-01-30_1", None),
        ("muted", "rep_2026-01-30_1", "muted"),
    ],
)
def test_later_rejection_opens_reviewed_and_no_muted_report(state: MarkState, seen: str, now: MarkState | None) -> None:
    (group,) = grouped([failed(1)]).values()
    group.mark = Mark(state, seen, NOW - timedelta(hours=1), "Ada")
    found = RejectionGroups([group], 1, truncated=False)
    assert group.state == now
    assert found.in_state(now) == [group]
    assert sum(len(found.in_state(each)) for each in (None, "reviewed", "muted")) == 1
