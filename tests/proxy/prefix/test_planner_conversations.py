"""Whole conversations, planned by several processes: all is kept, and the prefix only grows."""

from functools import cache
from itertools import islice
from random import Random

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.layouts.layout import Layout
from proxy.prefix.planned import PlanningTarget
from proxy.prefix.prompts.prompt import PromptSlot
from tests.examples import examples
from tests.fakes.badly_built import raw_bodies
from tests.fakes.conversations import CONVERSATIONS
from tests.fakes.planned_body_check import assert_nothing_lost
from tests.fakes.recorded import KINDS, PATHS, RecordedDialogue
from tests.fakes.wire_prefix import ROUTES, WireReader
from tests.proxy.prefix.planning_requests import (
    RULES,
    TARGETS,
    Json,
    PlanningProcess,
    body,
    chat_message,
    learned_layout,
    planning_request,
    tool,
    without_marks,
)

BUILT = {"well": RecordedDialogue.bodies, "badly": raw_bodies}
#: Of each recorded set every so manieth conversation.
EVERY = {"tau": 80, "agentdojo": 200, "lmcache": 50}


def names(raw: bytes) -> list[str]:
    return [tool["function"]["name"] for tool in orjson.loads(raw)["tools"]]


@cache
def onlooker() -> WireReader:
    return WireReader()


@cache
def layout(regime: str) -> Layout | None:
    """Evidence of a feature whose calls are built badly; None where nothing would pay."""
    them = (as_another(CONVERSATIONS[0], str(number)) for number in range(12))
    bodies = [raw for one in them for raw in raw_bodies(one)]
    return learned_layout(TARGETS[regime], bodies)


def as_another(one: RecordedDialogue, name: str) -> RecordedDialogue:
    """The conversation as another user's, at another place."""
    opening = {"role": "user", "content": f"I am user {name}. {one.messages[0]['content']}"}
    return RecordedDialogue(
        name=name,
        feature=one.feature,
        user=f"User {name}",
        place=f"/home/{name}/desk",
        rules=one.rules,
        tools=one.tools,
        messages=[opening, *one.messages[1:]],
    )


def judge(one: RecordedDialogue, regime: str, built: str) -> None:
    """Pass a conversation that is kept whole, extends its prefix, and is the same from anywhere.

    Two processes take turns; a third, that learned nothing, is told what they decided.
    """
    shown = layout(regime) if built == "badly" else None
    plans: dict[str, bytes] = {}
    bodies = list(BUILT[built](one))
    *both, third = (PlanningProcess(TARGETS[regime], layout=shown, plans=plans) for _ in range(3))
    sent = {}
    for turn, raw in enumerate(bodies):
        sent[raw] = both[turn % 2].send(raw)
        again = third.plan(planning_request(raw))

        assert_nothing_lost(raw, sent[raw].body)
        assert without_marks(again.body) == without_marks(sent[raw].body)
        assert again.prompt.tail == sent[raw].tail
    if built == "well" or shown is not None:
        assert list(onlooker().moves(bodies, sent.__getitem__, ROUTES[regime])) == []


@pytest.mark.parametrize("regime", ROUTES)
@pytest.mark.parametrize("built", BUILT)
@pytest.mark.parametrize("one", CONVERSATIONS, ids=lambda one: one.name)
def test_a_conversation_is_kept_whole_extends_its_prefix_and_is_the_same_everywhere(
    one, built, regime
):
    judge(one, regime, built)


@pytest.mark.slow
@pytest.mark.parametrize("regime", ROUTES)
@pytest.mark.parametrize("kind", KINDS)
def test_so_is_a_recorded_one(kind, regime):
    if not PATHS[kind].exists():
        pytest.skip(f"no recordings at {PATHS[kind]}")
    for one in islice(KINDS[kind](PATHS[kind]), 0, None, EVERY[kind]):
        judge(one, regime, "well")


#: Caches that read nothing of prompts as short as these, wherever their texts stand.
TOO_LONG_STEPS = {"implicit", "openai-interval"}


@pytest.mark.parametrize("regime", sorted(set(ROUTES) - TOO_LONG_STEPS))
def test_a_badly_ordered_prompt_shows_the_text_that_should_move(regime):
    learned_layout = layout(regime)

    assert learned_layout is not None
    assert [move.slot for move in learned_layout.moves] == [
        PromptSlot.VARIABLE,
        PromptSlot.SEMI_STABLE,
    ]


def test_where_nothing_so_short_is_cached_nothing_moves():
    implicit, interval = TARGETS["implicit"].regime, TARGETS["openai-interval"].regime

    assert (implicit.least, interval.block) == (4_096, 2_048)
    assert [layout(regime) for regime in sorted(TOO_LONG_STEPS)] == [None, None]


EVERYWHERE = [
    msgspec.structs.replace(way, late=late) for way in TARGETS.values() for late in (True, False)
]
WORDS = st.text('abc <>/:"\\é\n', max_size=12)
TAG = st.sampled_from(["stable", "semi", "variable", "none", ""])
TEXT = st.one_of(
    WORDS,
    st.builds(lambda tag, word, after: f"<tg:{tag}>{word}</tg:{tag}>{after}", TAG, WORDS, WORDS),
    st.builds(lambda word: f"{RULES[:6000]}\n{word}", WORDS),
)
CONTENT = st.one_of(
    TEXT,
    st.lists(st.builds(lambda text: {"type": "text", "text": text}, TEXT), min_size=1, max_size=3),
)
TOOLS = st.lists(st.sampled_from("abcdef"), unique=True, max_size=5)


@st.composite
def calls(draw: st.DrawFn) -> list[bytes]:
    """A conversation's calls; tools flicker, come shuffled and late, what is said only grows."""
    system = [chat_message("system", draw(CONTENT)) for _ in range(draw(st.integers(0, 2)))]
    messages: list[Json] = [chat_message("user", draw(CONTENT))]
    bodies = []
    for _ in range(draw(st.integers(1, 4))):
        tools = [tool(name) for name in draw(TOOLS)]
        bodies.append(body(*system, *messages, **({"tools": tools} if tools else {})))
        messages += [chat_message("assistant", draw(WORDS)), chat_message("user", draw(CONTENT))]
    return bodies


@pytest.mark.slow
@given(calls(), st.sampled_from(EVERYWHERE), st.randoms(use_true_random=False))
@examples(40, deadline=None)
def test_any_conversation_is_sent_whole_and_alike_by_every_process(
    bodies: list[bytes], to: PlanningTarget, roll: Random
):
    plans: dict[str, bytes] = {}
    *both, third = (PlanningProcess(to, plans=plans) for _ in range(3))
    order: list[str] = []
    for raw in bodies:
        planned = roll.choice(both).send(raw)

        assert without_marks(third.plan(planning_request(raw)).body) == without_marks(planned.body)
        if to.late:  # else what varies joins the user's words
            assert_nothing_lost(raw, planned.body)
        if b'"tools"' in raw:
            sent = names(planned.body)
            order += [name for name in sent if name not in order]
            assert sent == [name for name in order if name in sent]
