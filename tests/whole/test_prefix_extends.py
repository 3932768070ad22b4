"""Every conversation extends its own prefix on the wire at every step.

``python -m tests.bench.prefix_extends`` judges every recorded conversation; here are some of each.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import orjson
import pytest

from proxy.providers.kinds import WIRES
from tests.bench.prefix_extends import BUILT, LEARNING, MODES, learn, moves
from tests.fakes.badly_built import raw_bodies
from tests.fakes.conversations import CONVERSATIONS
from tests.fakes.handbook import handbook
from tests.fakes.recorded import KINDS, PATHS, RecordedDialogue
from tests.fakes.wire_prefix import ROUTES, PlannedBody, WireReader, as_sent

#: Of each recorded set every so manieth conversation.
EVERY = {"tau": 40, "agentdojo": 80, "lmcache": 20}
#: Conversations of the day before.
LEARNT = 8


def recordings_of(kind: str) -> list[RecordedDialogue]:
    if not PATHS[kind].exists():
        pytest.skip(f"no recordings at {PATHS[kind]}")
    return list(islice(KINDS[kind](PATHS[kind]), 0, None, EVERY[kind]))


def with_a_tail(body: bytes, *, declared: bool) -> PlannedBody:
    read = orjson.loads(body)
    read["messages"].append({"role": "user", "content": f"It is call {len(body)}."})
    return PlannedBody(orjson.dumps(read), tail=int(declared))


@pytest.fixture(scope="module")
def onlooker() -> WireReader:
    return WireReader()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("regime", ROUTES)
def test_a_conversation_extends_its_own_prefix(
    regime: str, mode: str, onlooker: WireReader
) -> None:
    assert list(moves(CONVERSATIONS, MODES[mode](regime), regime, onlooker)) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("regime", ROUTES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_recorded_conversation_extends_its_own_prefix(
    kind: str, regime: str, mode: str, onlooker: WireReader
) -> None:
    assert list(moves(recordings_of(kind), MODES[mode](regime), regime, onlooker)) == []


@pytest.mark.parametrize("built", BUILT)
@pytest.mark.parametrize("mode", LEARNING)
@pytest.mark.parametrize("regime", ROUTES)
def test_once_it_is_known_what_varies_a_conversation_built_badly_extends_its_own_prefix_too(
    regime: str, mode: str, built: str, onlooker: WireReader
) -> None:
    plans = learn(LEARNING[mode](regime), many(), BUILT[built])

    assert any(plans.layouts.values()) == (built == "badly")
    assert list(moves(many(), plans, regime, onlooker, BUILT[built])) == []


@pytest.mark.parametrize(
    ("regime", "mode"),
    [
        ("anthropic-breakpoint", "arranged"),
        ("openai-breakpoint", "arranged"),
        ("block-chain", "arranged early"),
    ],
)
def test_once_it_is_known_what_varies_a_recorded_conversation_extends_its_own_prefix(
    regime: str, mode: str, onlooker: WireReader
) -> None:
    them = recordings_of("tau")
    plans = learn(LEARNING[mode](regime), them, raw_bodies)

    assert list(moves(them, plans, regime, onlooker, raw_bodies)) == []


def many() -> Sequence[RecordedDialogue]:
    """Conversations of some users, with tools, under rules that every cache keeps."""
    (one,) = (one for one in CONVERSATIONS if one.tools)
    return [
        replace(
            one,
            name=f"{one.name}-{number}",
            user=f"{one.user} {number}",
            place=f"{one.place}/{number}",
            rules=handbook(50, "long"),
            messages=[{"role": "user", "content": f"Case {number}."}, *one.messages[1:]],
        )
        for number in range(LEARNT)
    ]


@pytest.mark.parametrize("regime", ROUTES)
def test_a_badly_built_conversation_sent_unmodified_moves_its_prefix_with_every_call(
    regime: str, onlooker: WireReader
) -> None:
    for one in CONVERSATIONS:
        calls = sum(1 for _ in one.calls())
        moved = list(onlooker.moves(raw_bodies(one), as_sent, ROUTES[regime]))

        assert len(moved) == calls - 1
        assert all(move.block <= len(one.tools) for move in moved)


@pytest.mark.parametrize("regime", ROUTES)
def test_a_declared_tail_may_vary_and_an_undeclared_one_may_not(
    regime: str, onlooker: WireReader
) -> None:
    def count_moves(*, declared: bool) -> int:
        def add_tail(_one: RecordedDialogue, body: bytes) -> PlannedBody:
            return with_a_tail(body, declared=declared)

        return len(list(moves(CONVERSATIONS, add_tail, regime, onlooker)))

    assert count_moves(declared=True) == 0
    assert count_moves(declared=False) > 0


@pytest.mark.parametrize("regime", ROUTES)
def test_marks_move_nothing(regime: str, onlooker: WireReader) -> None:
    """They stand on other blocks with every call."""

    def mark_every_other(_one: RecordedDialogue, body: bytes) -> PlannedBody:
        read = orjson.loads(body)
        mark = {"cache_control": {"type": "ephemeral"}}
        part = {"type": "text", "text": read["messages"][0]["content"], **mark}
        if len(body) % 2:
            read["messages"][0]["content"] = [part]
        return PlannedBody(orjson.dumps(read))

    assert list(moves(CONVERSATIONS, mark_every_other, regime, onlooker)) == []


def test_a_step_is_not_judged_where_the_caller_changed_what_was_said(onlooker: WireReader) -> None:
    one, two = ({"role": "user", "content": text} for text in ("One", "Two"))
    rules = {"role": "system", "content": "Be short."}
    conversations = ([one], [two], [rules, two])
    bodies = [orjson.dumps({"model": "any", "messages": messages}) for messages in conversations]
    (moved,) = onlooker.moves(bodies, as_sent, ROUTES["implicit"])

    assert (moved.step, moved.block) == (2, 0)
    assert moved.what.startswith("user text")


def test_every_regime_has_a_route_and_both_wires_are_among_them() -> None:
    kinds = {route.upstream.kind for route in ROUTES.values()}

    assert {"anthropic", "openai"} == kinds < set(WIRES)
