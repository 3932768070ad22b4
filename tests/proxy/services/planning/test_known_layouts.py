"""Tests of the layouts that a process has at hand."""

import asyncio

from proxy.services.planning import known_layouts
from proxy.services.planning.known_layouts import KnownLayouts
from tests.proxy.prefix.planning_requests import NOW
from tests.proxy.services.planning.planning_fixtures import PLACE

MOVES = '{"moves":[]}'


def test_a_layout_is_at_hand_once_it_was_read_of_the_store(store):
    store.layouts.propose(PLACE, "d", MOVES, NOW)
    layouts = KnownLayouts(store)
    before = layouts.has(PLACE, 1), layouts.layout(PLACE, 1)
    asyncio.run(layouts.fetch(PLACE, 1))

    assert before == (False, None)
    assert layouts.has(PLACE, 1)
    assert layouts.layout(PLACE, 1) is not None


def test_a_layout_that_the_store_lacks_is_asked_for_once(store):
    layouts = KnownLayouts(store)
    asyncio.run(layouts.fetch(PLACE, 9))

    assert layouts.has(PLACE, 9)
    assert layouts.layout(PLACE, 9) is None


def test_no_layout_is_always_at_hand(store):
    layouts = KnownLayouts(store)

    assert layouts.has(PLACE, 0)
    assert layouts.layout(PLACE, 0) is None


def test_layouts_at_hand_are_bounded(store):
    layouts = KnownLayouts(store)
    for version in range(1, known_layouts._MAX_LAYOUTS + 10):
        asyncio.run(layouts.fetch(PLACE, version))

    assert len(layouts) <= known_layouts._MAX_LAYOUTS + 1
