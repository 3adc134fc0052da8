"""The transitions of a file's lifecycle as a pure function: which are allowed, and which are refused."""

from typing import Final

import pytest

from sluice.files.lifecycle import HOLDABLE, TRANSITIONS, Change, FileState, TransitionRefused, state_after
from tests.rows import each_row

ALLOWED: Final = {
    (FileState.PENDING, Change.RECORD): FileState.STORED,
    (FileState.PENDING, Change.RELEASE): FileState.GONE,
    (FileState.PENDING, Change.FENCE): FileState.GONE,
    (FileState.STORED, Change.DELETE): FileState.DELETED,
    (FileState.STORED, Change.EXPIRE): FileState.DELETED,
    (FileState.STORED, Change.REFUSE): FileState.DELETED,
    (FileState.DELETED, Change.RESTORE): FileState.STORED,
    (FileState.DELETED, Change.BEGIN_PURGE): FileState.PURGING,
    (FileState.GONE, Change.PURGE): None,
    (FileState.PURGING, Change.PURGE): None,
}
EVERY = [(state, change) for state in FileState for change in Change]


@each_row(("state", "change"), EVERY)
def test_only_documented_transitions_are_allowed(state: FileState, change: Change) -> None:
    if (state, change) in ALLOWED:
        assert state_after(state, change) == ALLOWED[state, change]
        return
    with pytest.raises(TransitionRefused, match=f"{state} cannot {change}"):
        state_after(state, change)


def test_every_change_has_a_transition_and_every_state_can_be_left() -> None:
    assert set(TRANSITIONS) == set(Change)
    assert {source for transition in TRANSITIONS.values() for source in transition.sources} == set(FileState)


def test_no_transition_leads_back_to_pending() -> None:
    assert FileState.PENDING not in {transition.target for transition in TRANSITIONS.values()}
    assert TRANSITIONS[Change.RECORD].sources == {FileState.PENDING}


@each_row(("state", "change"), EVERY)
def test_a_held_file_is_neither_deleted_nor_purged(state: FileState, change: Change) -> None:
    ends = {FileState.DELETED, FileState.PURGING}
    if state in HOLDABLE and ALLOWED.get((state, change)) in ends:
        with pytest.raises(TransitionRefused, match=f"held cannot {change}"):
            state_after(state, change, held=True)
    elif state in HOLDABLE and (state, change) in ALLOWED:
        assert state_after(state, change, held=True) is FileState.STORED


@each_row("state", [FileState.GONE, FileState.PURGING])
def test_a_file_whose_object_may_be_gone_can_only_be_purged(state: FileState) -> None:
    for change in set(Change) - {Change.PURGE}:
        with pytest.raises(TransitionRefused):
            state_after(state, change)


@each_row("state, change", [key for key, target in ALLOWED.items() if target is not None])
def test_no_change_can_be_repeated(state: FileState, change: Change) -> None:
    after = state_after(state, change)
    assert after is not None
    with pytest.raises(TransitionRefused):
        state_after(after, change)
