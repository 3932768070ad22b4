"""Recorded calls as the gateway would have planned them."""

from itertools import permutations
from typing import Any

import msgspec
import orjson
import pytest

from proxy.prefix.explain.reasons import CacheMiss
from proxy.prefix.planned import Draft, Planned
from proxy.prefix.planner import Planner
from proxy.tools.replay.planning import PlannedVariant
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.replay.run import replay
from proxy.tools.replay.variant_totals import sum_of
from slo.usage import Usage
from tests.fakes.planned_body_check import assert_nothing_lost
from tests.proxy.tools.replay.scene import (
    RULES,
    call,
    dialogue,
    prompt_reader,
    system,
    tool,
    user,
    with_times,
)

LONG = [f"{rule} It stands in volume {number}." for number, rule in enumerate(RULES * 4)]
NOTHING = Usage(input=1)


def planning(vocabulary, model: str = "blocks", *, arranges: bool = True) -> PlannedVariant:
    return PlannedVariant(prompt_reader(model, vocabulary), 0.0, arranges=arranges)


def built_badly(conversations: int = 30) -> list[RecordedCall]:
    """Each call says its number above the rules."""
    return [
        call(
            system(f"Call number {number}.", *LONG),
            user(f"Who are you, {number}?"),
            conversation=str(number),
        )
        for number in range(conversations)
    ]


def bodies(variant: PlannedVariant, calls: list[RecordedCall]) -> list[bytes]:
    """Return what is sent of each call; each is answered before the next."""
    sent_bodies = []
    for now, line in with_times(calls):
        sent_bodies.append(variant.body(line, now))
        variant.record_answer(NOTHING)
    return sent_bodies


def opening(raw: bytes) -> str:
    content = orjson.loads(raw)["messages"][0]["content"]
    return str(content if isinstance(content, str) else content[0]["text"])


def test_each_variant_has_its_name(vocabulary):
    assert planning(vocabulary).name == "by default"
    assert planning(vocabulary, arranges=False).name == "without layouts"


@pytest.mark.parametrize(("names", "conversations"), [(True, 2), (False, 1)])
def test_conversations_are_told_apart_by_name_only_where_callers_name_them(
    vocabulary, names, conversations
):
    variant = PlannedVariant(prompt_reader("blocks", vocabulary), 0.0, arranges=False, names=names)
    scopes = set()
    for name in ("a", "b"):
        variant.body(call(system(*LONG), user("Who are you?"), conversation=name), 0.0)
        assert variant._planned is not None
        scopes.add(variant._planned.draft.conversation)

    assert len(scopes) == conversations


def test_variable_text_moves_once_the_traffic_has_shown_it_and_no_sooner(vocabulary):
    calls = built_badly()
    sent_bodies = bodies(planning(vocabulary), calls)

    stays = [opening(raw).startswith("Call number") for raw in sent_bodies]

    assert stays == sorted(stays, reverse=True)
    assert all(stays[:5])
    assert not stays[-1]
    for line, raw in zip(calls, sent_bodies, strict=True):
        assert_nothing_lost(line.body, raw)


def test_marked_moves_no_text(vocabulary):
    sent_bodies = bodies(planning(vocabulary, arranges=False), built_badly())

    assert all(opening(raw).startswith("Call number") for raw in sent_bodies)


def test_a_conversation_that_has_begun_keeps_the_layout_it_began_with(vocabulary):
    variant = planning(vocabulary)
    begun, later = (
        call(system("Call number 1000.", *LONG), user(f"Hello, {name}!"), conversation=name)
        for name in ("begun", "later")
    )
    bodies(variant, [begun])
    bodies(variant, built_badly())

    assert opening(variant.body(begun, 1e3)).startswith("Call number")
    assert not opening(variant.body(later, 1e3)).startswith("Call number")


def test_the_same_evidence_makes_no_further_layout(vocabulary):
    variant = planning(vocabulary)
    bodies(variant, built_badly(120))

    assert [len(feature.layouts) for feature in variant._features.values()] == [1]


def test_replayed_features_have_layouts_of_their_own(vocabulary):
    variant = planning(vocabulary)
    bodies(variant, built_badly())
    (other,) = (msgspec.structs.replace(line, feature="g") for line in built_badly(1))

    assert opening(variant.body(other, 1e3)).startswith("Call number")


def test_tools_that_come_shuffled_go_by_name_in_both(vocabulary):
    tools = [tool(name) for name in ("trains", "weather", "hotels")]
    for arranges in (True, False):
        variant = planning(vocabulary, arranges=arranges)
        for number, order in enumerate(permutations(tools)):
            line = call(system(*LONG), user(f"Hello {number}!"), tools=order)
            raw = variant.body(line, 0.0)

        assert [tool["function"]["name"] for tool in orjson.loads(raw)["tools"]] == [
            "hotels",
            "trains",
            "weather",
        ]


def test_a_call_that_cannot_be_planned_goes_unmodified_and_teaches_nothing(vocabulary):
    variant = planning(vocabulary)
    line = call({"role": "user", "content": 7})
    raw = variant.body(line, 0.0)
    variant.record_answer(NOTHING)

    assert raw is line.body
    assert len(variant._lessons) == 0


class FailingPlanner(Planner):
    """Makes a mistake with prompts that say before or after what."""

    def plan_call(self, draft: Draft, *rest: Any) -> Planned:
        if b"before" in draft.request.body:
            raise TypeError("of planning")
        return super().plan_call(draft, *rest)

    def settle_call(self, planned: Planned, *rest: Any, **more: Any) -> CacheMiss | None:
        if b"after" in planned.draft.request.body:
            raise TypeError("of learning")
        return super().settle_call(planned, *rest, **more)


def clumsy(vocabulary) -> PlannedVariant:
    variant = planning(vocabulary)
    variant._planner = FailingPlanner(b"clumsy", share=0.0)
    return variant


def test_a_line_that_planning_fails_on_goes_as_it_came_and_is_told_of_once(vocabulary, caplog):
    variant = clumsy(vocabulary)
    bad, good = (call(system(*LONG), user(word)) for word in ("before", "meanwhile"))
    sent_bodies = bodies(variant, [bad, good, bad])

    assert [sent_bodies[0], sent_bodies[2]] == [bad.body] * 2
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    (feature,) = variant._features.values()
    assert (feature.planned, feature.passed) == (1, 2)
    assert feature.passed_why == "planning failed"


def test_a_line_that_nothing_can_be_learned_from_costs_no_other(vocabulary, caplog):
    variant = clumsy(vocabulary)
    bad, good = (call(system(*LONG), user(word)) for word in ("after", "meanwhile"))
    bodies(variant, [bad, good, bad])

    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert [feature.planned for feature in variant._features.values()] == [1]


@pytest.mark.parametrize("model", ["breakpoints", "marks", "blocks", "uncached"])
def test_a_prompt_of_rules_alone_is_planned(vocabulary, model):
    variant = planning(vocabulary, model)
    bodies(variant, [call(system(*LONG))] * 2)
    variant.unmoved_features()  # every answer has come

    assert [feature.planned for feature in variant._features.values()] == [2]


@pytest.mark.parametrize("model", ["breakpoints", "marks", "blocks", "uncached"])
def test_planning_costs_no_more_than_what_was_sent(vocabulary, model):
    calls = [line for n in range(6) for line in dialogue(system(*LONG), 5, f"c{n}")]
    read = prompt_reader(model, vocabulary)
    variants = [PlannedVariant(read, 0.0, arranges=arranges) for arranges in (False, True)]
    run = replay(with_times(calls), read, variants)
    as_sent, *planned = sum_of(run.features())

    # Where a mark is a bet, one may be open at the end: a quarter of a prompt, or a little more.
    bet = 0.3 / len(calls) if model == "marks" else 0.0
    assert [variant.name for variant in run.variants[1:]] == ["without layouts", "by default"]
    for row in planned:
        assert row.hit_rate >= as_sent.hit_rate
        if as_sent.nanos is not None:
            assert row.nanos is not None
            assert row.nanos <= as_sent.nanos * (1 + bet)


def test_a_badly_ordered_prompt_is_read_from_the_cache_once_arranged(vocabulary):
    read = prompt_reader("blocks", vocabulary)
    variants = [PlannedVariant(read, 0.0, arranges=arranges) for arranges in (False, True)]
    run = replay(with_times(built_badly(60)), read, variants)
    as_sent, marked, arranged = sum_of(run.features())

    assert as_sent.hit_rate == marked.hit_rate < 0.05
    assert arranged.hit_rate > 0.5


@pytest.mark.parametrize("model", ["marks", "blocks"])
def test_recorded_calls_of_anthropics_api_are_planned_in_the_form_that_their_route_takes(
    vocabulary, model: str
):
    def native(number: int) -> RecordedCall:
        body = {
            "model": "any",
            "max_tokens": 9,
            "system": "\n".join(LONG),
            "messages": [{"role": "user", "content": f"Who are you, {number}?"}],
        }
        return RecordedCall(at=None, body=orjson.dumps(body), is_native=True)

    way = planning(vocabulary, model, arranges=False)
    calls = with_times([native(number) for number in range(30)])
    run = replay(calls, prompt_reader(model, vocabulary), (way,), day=0.0)
    unplanned, marked = sum_of(run.features())

    assert unplanned.calls == 30
    assert marked.cache_read_tokens >= unplanned.cache_read_tokens
    assert marked.cache_read_tokens > 0
