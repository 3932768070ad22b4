import json
from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import (
    ChatCompletionFunctionToolParam,
    ChatCompletionMessageParam,
    completion_create_params,
)
from pydantic import TypeAdapter

from compaction.reading.vocabulary import Tokenizer
from proxy.tools.demo.conversation import Message
from proxy.tools.demo.plan import PlannedCall, calls

Body = dict[str, Any]
Played = list[tuple[PlannedCall, Body]]

START = datetime(2026, 11, 3, 9, 0, 7, tzinfo=UTC)
SHARED = completion_create_params.CompletionCreateParamsBase.__annotations__
MESSAGES = TypeAdapter(list[ChatCompletionMessageParam])
TOOLS = TypeAdapter(list[ChatCompletionFunctionToolParam])
ANSWER = {"role": "assistant", "content": "This answer is simulated. " * 20}


@pytest.fixture(scope="module")
def calls_and_bodies() -> Played:
    """Every call with its body, each answered before the next is made."""
    planned_bodies = []
    for planned in calls(start=START):
        planned_bodies.append((planned, planned.body()))
        planned.record_answer(ANSWER)
    return planned_bodies


def tokens(body: Body) -> int:
    prompt = {name: body.get(name) for name in ("messages", "tools")}
    return Tokenizer("o200k_base").count(json.dumps(prompt, ensure_ascii=False))


def bodies(**arguments: int) -> list[Body]:
    return [planned.body() for planned in calls(start=START, **arguments)]


def test_there_are_two_hundred_calls_and_half_are_streamed(calls_and_bodies: Played) -> None:
    assert [planned.number for planned, _ in calls_and_bodies] == list(range(200))
    assert sum(body["stream"] for _, body in calls_and_bodies) == 100


def test_each_application_streams_about_half_of_its_calls(calls_and_bodies: Played) -> None:
    by_feature = Counter(planned.feature for planned, _ in calls_and_bodies)
    streamed = Counter(planned.feature for planned, _ in calls_and_bodies if planned.streamed)
    for feature, count in by_feature.items():
        assert 0.3 < streamed[feature] / count < 0.7


def test_all_three_teams_call_with_a_model_each(calls_and_bodies: Played) -> None:
    by_feature = Counter(
        (planned.team, planned.feature, body["model"]) for planned, body in calls_and_bodies
    )
    assert by_feature.keys() == {
        ("acme-support", "support-chat", "gpt-5.6-terra"),
        ("acme-docs", "docs-chat", "gpt-5.6-terra"),
        ("acme-engineering", "coding-agent", "claude-sonnet-5-5"),
    }
    assert min(by_feature.values()) >= 40


def test_bodies_are_what_the_sdk_takes(calls_and_bodies: Played) -> None:
    allowed = SHARED.keys() | {"stream"}
    for planned, body in calls_and_bodies:
        assert body.keys() <= allowed
        assert ("stream_options" in body) == planned.streamed
        MESSAGES.validate_python(body["messages"])
        TOOLS.validate_python(body.get("tools", []))
        assert json.loads(json.dumps(body)) == body


def test_no_message_is_empty(calls_and_bodies: Played) -> None:
    for _, body in calls_and_bodies:
        assert all(message["content"] for message in body["messages"])


def test_prompts_have_the_sizes_of_real_ones(calls_and_bodies: Played) -> None:
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for planned, body in calls_and_bodies:
        sizes[planned.feature].append(tokens(body))
    assert 3_500 < min(sizes["support-chat"]) < max(sizes["support-chat"]) < 6_000
    assert 3_500 < min(sizes["docs-chat"]) < max(sizes["docs-chat"]) < 6_000
    assert 2_300 < min(sizes["coding-agent"]) < 3_000
    assert 9_000 < max(sizes["coding-agent"]) < 17_000
    assert 900_000 < sum(map(sum, sizes.values())) < 1_300_000


def test_turns_of_a_conversation_come_in_order(calls_and_bodies: Played) -> None:
    turns: defaultdict[str, list[int]] = defaultdict(list)
    for planned, _ in calls_and_bodies:
        turns[planned.conversation.id].append(planned.turn)
    for came in turns.values():
        assert came == list(range(len(came)))


def test_a_conversation_grows_by_the_answer_to_its_turn_before(calls_and_bodies: Played) -> None:
    last: dict[str, list[Message]] = {}
    for planned, body in calls_and_bodies:
        history = body["messages"][1:]
        if planned.feature != "docs-chat" and planned.turn:
            before = last[planned.conversation.id]
            assert history[: len(before)] == before
            assert history[len(before)]["content"] == ANSWER["content"]
        last[planned.conversation.id] = history


def test_conversations_are_interleaved(calls_and_bodies: Played) -> None:
    ids = [planned.conversation.id for planned, _ in calls_and_bodies]
    assert all(len(set(ids[first : first + 8])) >= 3 for first in range(len(ids) - 8))
    assert len(set(ids[:50])) >= 8


def test_customers_pause_longer_than_agents(calls_and_bodies: Played) -> None:
    pauses: defaultdict[str, list[float]] = defaultdict(list)
    last: dict[str, datetime] = {}
    for planned, _ in calls_and_bodies:
        name = planned.conversation.id
        if planned.turn:
            pauses[planned.feature].append((planned.time - last[name]).total_seconds())
        last[name] = planned.time
    assert 4 <= min(pauses["coding-agent"]) < max(pauses["coding-agent"]) <= 40
    assert 15 <= min(pauses["support-chat"]) < max(pauses["support-chat"]) <= 90


def test_clocks_go_forward(calls_and_bodies: Played) -> None:
    times = [planned.time for planned, _ in calls_and_bodies]
    assert times[0] == START
    assert times == sorted(times)


def test_the_same_arguments_give_the_same_plan() -> None:
    assert bodies(count=60) == bodies(count=60)


def test_demo_plans_differ_by_their_seed() -> None:
    assert bodies(count=20, seed=3) != bodies(count=20, seed=4)


def test_a_body_made_late_is_the_body_made_at_once() -> None:
    late = list(calls(start=START, count=60))
    assert [planned.body() for planned in reversed(late)][::-1] == bodies(count=60)


@given(count=st.integers(0, 400), seed=st.integers())
def test_any_number_of_calls_can_be_planned(count: int, seed: int) -> None:
    planned: list[PlannedCall] = list(calls(start=START, count=count, seed=seed))
    assert [planned.number for planned in planned] == list(range(count))
    assert abs(2 * sum(planned.streamed for planned in planned) - count) <= 1
    pairs = [(planned.conversation.id, planned.turn) for planned in planned]
    assert len(pairs) == len(set(pairs))
