"""Hints of a call at a self-hosted engine: from its objectives, its team, its expected length."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import orjson
import pytest

from proxy.calls.attempts.preparing import call_hints
from proxy.calls.deadlines import NoWatchdog
from proxy.calls.ports import CallContext
from proxy.catalog.entries import Route
from proxy.providers.scheduling_hints import TTFT_HEADER
from proxy.records.call import Call
from proxy.records.timeline import Timeline
from slo.objectives.latency_target import LatencyTarget
from tests.fakes.answers import COMPLETION
from tests.fakes.call_dependencies import FakeEstimator, call, fake_dependencies, route, serve_call
from tests.fakes.caller import FakeCaller
from tests.fakes.upstream import FakeTransport, ScriptedAnswer

TARGET = LatencyTarget(objective="fast", ttft=1.0, total=20.0, decode=6.0)


def route_with_hints(*kinds: str) -> Route:
    plain = route("gpu")
    return replace(plain, upstream=replace(plain.upstream, hints=frozenset(kinds)))


def context(
    target: LatencyTarget | None = TARGET, usual: int | None = 300, waited: float = 0.25
) -> CallContext:
    deps, _ = fake_dependencies(FakeTransport([]), estimator=FakeEstimator(usual=usual))
    clock = iter([100.0])
    clock_s = [100.0]
    timeline = Timeline(lambda: next(clock, clock_s[0]))
    clock_s[0] += waited
    deps = replace(deps, latency_target=lambda request: target)
    return CallContext(call(b"{}"), FakeCaller(), deps, NoWatchdog(), timeline)


def chat_call(**fields: Any) -> Call:
    return call(orjson.dumps({"model": "m", "messages": [], **fields}))


def test_an_upstream_that_takes_no_hints_gets_none():
    assert call_hints(context(), chat_call(), route("gpu")) is None


def test_the_time_that_is_left_is_that_of_the_objective_less_what_has_passed():
    hints = call_hints(context(waited=0.25), chat_call(), route_with_hints("vllm"))

    assert hints is not None
    assert hints.first_token_s == pytest.approx(0.75)
    assert hints.wait_s == pytest.approx(0.75)
    assert hints.token_s == pytest.approx(6.0 / 300)
    assert (hints.objective, hints.output_tokens) == ("fast", 300)


def test_a_limit_that_has_passed_already_leaves_no_time_and_none_below():
    hints = call_hints(context(waited=9.0), chat_call(), route_with_hints("vllm"))

    assert hints is not None
    assert hints.first_token_s == 0.0


def test_budgets_of_queue_and_prefill_count_where_they_are_less():
    target = LatencyTarget(objective="fast", ttft=1.0, queue_and_prefill=0.4)
    hints = call_hints(context(target), chat_call(), route_with_hints("vllm"))

    assert hints is not None
    assert hints.first_token_s == pytest.approx(0.4)


def test_without_a_limit_of_the_first_token_that_of_the_whole_answer_counts():
    hints = call_hints(
        context(LatencyTarget(objective="whole", total=20.0)), chat_call(), route_with_hints("vllm")
    )

    assert hints is not None
    assert hints.first_token_s is None
    assert hints.wait_s == pytest.approx(19.75)


@pytest.mark.parametrize(
    ("usual", "limit", "expected"),
    [(300, None, 300), (300, 50, 50), (None, 50, 50), (30, 50, 30), (None, None, None)],
)
def test_the_expected_output_is_the_usual_one_within_the_calls_own_limit(
    usual: int | None, limit: int | None, expected: int | None
):
    fields = {} if limit is None else {"max_tokens": limit}
    hints = call_hints(context(usual=usual), chat_call(**fields), route_with_hints("dynamo"))

    assert hints is not None
    assert hints.output_tokens == expected


def test_the_team_is_named_by_a_pseudonym_that_is_the_same_for_all_its_calls():
    one, two = (call_hints(context(), chat_call(), route_with_hints("llm-d")) for _ in range(2))

    assert one is not None
    assert two is not None
    assert one.fairness_id == two.fairness_id
    assert len(one.fairness_id) == 32
    assert "team_1" not in one.fairness_id


def test_a_call_that_warms_a_prompt_has_no_objective_and_comes_last():
    warming = msgspec.structs.replace(chat_call(), feature="warming:chat")
    hints = call_hints(context(), warming, route_with_hints("vllm"))

    assert hints is not None
    assert hints.is_background
    assert (hints.first_token_s, hints.objective) == (None, "")


def test_a_call_is_sent_with_the_hints_of_its_route_alone():
    transport = FakeTransport([ScriptedAnswer([COMPLETION])])
    deps, _ = fake_dependencies(transport, route_with_hints("llm-d", "vllm"))
    deps = replace(deps, latency_target=lambda _: TARGET)

    asyncio.run(serve_call(chat_call(), FakeCaller(), deps, Timeline(lambda: 0.0)))

    ((_, prepared),) = transport.sent
    assert orjson.loads(prepared.body)["priority"] == 1_000
    assert prepared.headers[TTFT_HEADER] == "1000"
    assert "nvext" not in orjson.loads(prepared.body)
