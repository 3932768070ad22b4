"""Tests of the layouts that a process has at hand."""

import asyncio

import pytest

from proxy.prefix.layouts.layout import Anchor, Layout, LayoutMove
from proxy.prefix.prompts.prompt import PromptSlot
from proxy.services.planning.known_layouts import KnownLayouts, StoreReads
from tests.fakes.clock import run_in_instant_time
from tests.proxy.prefix.planning_requests import NOW
from tests.proxy.services.planning.planning_fixtures import (
    PLACE,
    SlowStore,
    UnreachableStore,
    open_store,
)

MOVES = '{"moves":[]}'


def test_a_layout_is_at_hand_once_it_was_read_of_the_store(store):
    store.layouts.propose(PLACE, "d", MOVES, NOW)
    layouts = KnownLayouts(store, StoreReads(store, lambda: NOW))
    before = layouts.has(PLACE, 1), layouts.layout(PLACE, 1)
    asyncio.run(layouts.fetch(PLACE, 1))

    assert before == (False, None)
    assert layouts.has(PLACE, 1)
    assert layouts.layout(PLACE, 1) is not None


def test_a_layout_that_the_store_lacks_is_asked_for_once(store):
    layouts = KnownLayouts(store, StoreReads(store, lambda: NOW))
    asyncio.run(layouts.fetch(PLACE, 9))

    assert layouts.has(PLACE, 9)
    assert layouts.layout(PLACE, 9) is None


def test_no_layout_is_always_at_hand(store):
    layouts = KnownLayouts(store, StoreReads(store, lambda: NOW))

    assert layouts.has(PLACE, 0)
    assert layouts.layout(PLACE, 0) is None


def test_layouts_at_hand_are_bounded(store):
    layouts = KnownLayouts(store, StoreReads(store, lambda: NOW))
    sizes = []
    for version in range(1, 1_027):
        layouts._remember((PLACE, version), MOVES)
        sizes.append(len(layouts))

    assert sizes[1_024:] == [1_025, 1]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (SlowStore, "the database did not answer within 0.25 s"),
        (UnreachableStore, "away"),
    ],
)
def test_a_failed_read_is_logged_with_its_reason(tmp_path, caplog, kind, why):
    store = open_store(tmp_path, kind)
    reads = StoreReads(store, lambda: NOW)
    try:
        assert run_in_instant_time(reads.plans(["a"])) == {}
        assert run_in_instant_time(reads.proposals(PLACE)) is None
    finally:
        store.close(5)

    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("The plan of a conversation could not be read: ")
    assert why in line


def test_failed_reads_are_logged_every_ten_seconds_with_their_number(tmp_path, caplog):
    store, now = open_store(tmp_path, UnreachableStore), NOW
    reads = StoreReads(store, lambda: now)
    try:
        for second in range(21):
            now = NOW + second
            run_in_instant_time(reads.plans(["a"]))
    finally:
        store.close(5)

    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert "more since" not in lines[0]
    assert lines[1].endswith("; 9 more since the line before")


def test_a_proposal_that_stays_the_same_is_renewed_every_ten_seconds_and_another_at_once(store):
    layouts = KnownLayouts(store, StoreReads(store, lambda: NOW))
    layout, other = (Layout(moves=(move(label),)) for label in ("Current time", "User"))

    def renew_at(second: float, proposed: Layout | None) -> list[tuple[str, float]]:
        layouts.renew_proposal(PLACE, proposed, 25, NOW + second)
        return [(one.state.value, one.made - NOW) for one in store.layouts.proposals(PLACE)]

    assert renew_at(0.0, layout) == [("proposed", 0.0)]
    assert renew_at(9.0, layout) == [("proposed", 0.0)]
    assert renew_at(10.0, layout) == [("proposed", 10.0)]
    assert renew_at(11.0, other) == [("withdrawn", 10.0), ("proposed", 11.0)]
    assert renew_at(12.0, None) == [("withdrawn", 10.0), ("withdrawn", 11.0)]


def move(label: str) -> LayoutMove:
    here = Anchor("00" * 16, 20)
    return LayoutMove(before=None, after=here, slot=PromptSlot.VARIABLE, label=label)
