"""Calls from body to answer: caches, times, faults."""

from itertools import pairwise

import pytest

from proxy.catalog.entries import Model, Route, Upstream
from proxy.tools.simulator.models import MODELS, SimulatedModel, of_models
from proxy.tools.simulator.rendering import Vocabulary
from tests.proxy.tools.simulator.scene import (
    NOTES,
    SMALL,
    Json,
    SimulatorHarness,
    user,
)

OPENAI = [name for name, model in MODELS.items() if model.wire == "openai" and model.regime]


def turns(count: int) -> list[list[Json]]:
    """A conversation as it grows; what the model says is what the simulator would not say."""
    messages: list[Json] = [{"role": "system", "content": NOTES * 3}]
    grown = []
    for number in range(count):
        messages = [*messages, user(f"Question {number}: may I return a parcel?")]
        grown.append(messages)
        messages = [*messages, {"role": "assistant", "content": f"Answer {number}: you may. " * 40}]
    return grown


def cached_tokens(answer: Json) -> int:
    usage = answer["usage"]
    if "input_tokens" in usage:
        return int(usage["cache_read_input_tokens"])
    return int(usage["prompt_tokens_details"]["cached_tokens"])


@pytest.mark.parametrize("model", OPENAI)
def test_the_cached_prefix_grows_with_the_conversation(scene: SimulatorHarness, model: str) -> None:
    cached = []
    for messages in turns(8):
        cached.append(cached_tokens(scene.chat(model=model, messages=messages).json()))
        scene.clock.now += 5

    assert cached[0] == 0
    assert cached == sorted(cached) or MODELS[model].regime == "implicit"
    assert cached[-1] > len(NOTES) // 8


def test_anthropic_reads_up_to_the_last_mark_and_writes_what_is_new(vocabulary: Vocabulary) -> None:
    scene = SimulatorHarness(vocabulary, SMALL)
    usages = []
    for messages in turns(4):
        body = {
            "system": messages[0]["content"],
            "messages": messages[1:],
            "cache_control": {"type": "ephemeral"},
        }
        usages.append(scene.anthropic(body).json()["usage"])

    for before, after in pairwise(usages):
        written = before["cache_read_input_tokens"] + before["cache_creation_input_tokens"]
        assert after["cache_read_input_tokens"] == written
        assert after["cache_creation"]["ephemeral_5m_input_tokens"] > 0
    assert usages[0]["cache_read_input_tokens"] == 0


def test_the_first_token_waits_for_what_is_not_cached(scene: SimulatorHarness) -> None:
    waits = []
    for messages in turns(2):
        scene.clock.slept.clear()
        scene.chat(messages=messages, stream=True)
        waits.append(scene.clock.slept[0])

    model = MODELS["gpt-6.1-sol"]
    first = scene.lab.exchanges[0].usage
    assert first is not None
    assert waits[0] == pytest.approx(model.ttft + model.per_1k * first.prompt_tokens / 1000)
    assert model.ttft < waits[1] < waits[0] / 1.2


def test_a_stream_takes_its_time_for_each_token_and_a_whole_answer_all_at_once(
    scene: SimulatorHarness,
) -> None:
    streamed = scene.chat(stream=True)
    spread = list(scene.clock.slept)
    scene.clock.slept.clear()
    scene.chat()

    assert streamed.status_code == 200
    assert len(spread) > 5
    assert len(scene.clock.slept) == 1
    assert scene.clock.slept[0] > spread[0]


def test_slow_is_slower(scene: SimulatorHarness) -> None:
    scene.chat()
    usual = scene.clock.slept.pop()
    scene.chat(cues="slow=4")

    assert scene.clock.slept == [pytest.approx(4 * usual)]


def test_slow_twice_is_slower_still(scene: SimulatorHarness) -> None:
    scene.chat()
    scene.lab.inject_fault("gpt-6.1-sol", "slow=3")
    scene.chat(cues="slow=4")

    first, second = scene.clock.slept
    assert second == pytest.approx(12 * first)


def test_a_prompt_beyond_the_window_is_refused_as_each_provider_does(
    vocabulary: Vocabulary,
) -> None:
    scene = SimulatorHarness(
        vocabulary,
        {
            "gpt-6.1-sol": SimulatedModel(window=20),
            "claude-haiku-4-5": SimulatedModel(wire="anthropic", window=20),
        },
    )

    assert scene.chat("Hello").status_code == 200
    refused = scene.chat("Hello there. " * 20)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (400, "context_length_exceeded")
    assert "maximum context length is 20 tokens" in error["message"]

    refused = scene.anthropic({"messages": [user("Hello there. " * 20)]})
    error = refused.json()["error"]
    assert (refused.status_code, error["type"]) == (400, "invalid_request_error")
    assert error["message"].startswith("prompt is too long: ")
    assert error["message"].endswith(" tokens > 20 maximum")


def test_a_catalogs_window_is_kept_to_in_chat_and_responses_streamed_or_not(
    vocabulary: Vocabulary,
) -> None:
    lab = Upstream(name="lab", kind="openai", base_url="http://lab/v1")
    route = Route(name="lab/m", upstream=lab, window=20)
    scene = SimulatorHarness(vocabulary, of_models([Model(id="m", routes=(route,))]))
    long = "Hello there. " * 20
    calls: list[tuple[str, Json]] = [
        ("chat/completions", {"messages": [user(long)]}),
        ("chat/completions", {"messages": [user(long)], "stream": True}),
        ("responses", {"input": long}),
        ("responses", {"input": long, "stream": True}),
    ]

    answers = [scene.openai(path, {"model": "m", **body}) for path, body in calls]

    assert {answer.status_code for answer in answers} == {400}
    assert {answer.json()["error"]["code"] for answer in answers} == {"context_length_exceeded"}
    assert [answer.json()["error"]["param"] for answer in answers] == [
        "messages",
        "messages",
        "input",
        "input",
    ]


def test_a_scale_of_nothing_never_waits(vocabulary: Vocabulary) -> None:
    scene = SimulatorHarness(vocabulary, time_scale=0)
    scene.chat(stream=True)

    assert scene.clock.slept == []


def test_a_cached_answer_is_not_visible_before_it_begins(scene: SimulatorHarness) -> None:
    """A call that fails stores nothing."""
    messages = turns(1)[0]
    with pytest.raises(ConnectionResetError):
        scene.chat(messages=messages, cues="death-before-content")

    assert cached_tokens(scene.chat(messages=messages).json()) == 0
    assert cached_tokens(scene.chat(messages=messages).json()) > 0


def test_usage_adds_up_and_is_what_is_recorded(scene: SimulatorHarness) -> None:
    usage = scene.chat(reasoning_effort="low").json()["usage"]
    recorded = scene.lab.exchanges[-1].usage

    assert recorded is not None
    assert usage["prompt_tokens"] == recorded.prompt_tokens
    assert usage["completion_tokens"] == recorded.generated_tokens
    assert usage["completion_tokens_details"]["reasoning_tokens"] == recorded.reasoning == 64
    assert usage["total_tokens"] == recorded.prompt_tokens + recorded.generated_tokens


def test_thinking_is_taken_back_unmodified_and_refused_when_forged(scene: SimulatorHarness) -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    first = scene.anthropic({"thinking": thinking, "messages": [user("a")]}).json()
    reply = {"role": "assistant", "content": first["content"]}
    after = {"thinking": thinking, "messages": [user("a"), reply, user("b")]}

    assert first["content"][0]["type"] == "thinking"
    assert scene.anthropic(after).status_code == 200
    first["content"][0]["signature"] = "forged"
    assert scene.anthropic(after).status_code == 400


def test_tokens_are_counted_without_an_answer(scene: SimulatorHarness) -> None:
    body: Json = {"messages": [user("Hello")]}
    counted = scene.anthropic(body, path="messages/count_tokens").json()["input_tokens"]

    assert counted == scene.anthropic(body).json()["usage"]["input_tokens"]


def test_a_prompt_can_be_cached_without_an_answer(vocabulary: Vocabulary) -> None:
    scene = SimulatorHarness(vocabulary, SMALL)
    body = {"max_tokens": 0, "messages": [user(NOTES)], "cache_control": {"type": "ephemeral"}}
    answer = scene.anthropic(body).json()

    assert (answer["content"], answer["usage"]["output_tokens"]) == ([], 0)
    assert answer["usage"]["cache_creation_input_tokens"] > 512


def test_a_conversation_goes_on_from_its_last_response(scene: SimulatorHarness) -> None:
    first = scene.openai("responses", {"model": "gpt-6.1-sol", "input": NOTES}).json()
    after = {"model": "gpt-6.1-sol", "input": "And?", "previous_response_id": first["id"]}
    second = scene.openai("responses", after).json()

    assert second["usage"]["input_tokens"] > first["usage"]["input_tokens"]
    assert second["usage"]["input_tokens_details"]["cached_tokens"] > 1024


@pytest.mark.parametrize("previous", ["resp_unknown", 5])
def test_an_unknown_conversation_cannot_go_on(scene: SimulatorHarness, previous: object) -> None:
    after = {"model": "gpt-6.1-sol", "input": "And?", "previous_response_id": previous}
    answer = scene.openai("responses", after)

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "previous_response_not_found"


def test_a_response_that_is_not_stored_is_not_kept(scene: SimulatorHarness) -> None:
    scene.openai("responses", {"model": "gpt-6.1-sol", "input": "a", "store": False})

    assert not scene.lab.responses


def test_sealed_reasoning_goes_back_as_it_came(scene: SimulatorHarness) -> None:
    body: Json = {
        "model": "gpt-6.1-sol",
        "input": [user("a")],
        "reasoning": {"effort": "low"},
        "include": ["reasoning.encrypted_content"],
    }
    output = scene.openai("responses", body).json()["output"]
    body["input"] += [*output, user("b")]

    assert scene.openai("responses", body).status_code == 200
    output[0]["encrypted_content"] = "forged"
    assert scene.openai("responses", body).status_code == 400
