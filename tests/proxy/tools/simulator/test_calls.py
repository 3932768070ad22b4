"""Calls from body to answer: caches, times, faults."""

from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from proxy.catalog.entries import Model, Route, Upstream
from proxy.tools.simulator.models import MODELS, SimulatedModel, of_models
from proxy.tools.simulator.rendering import Vocabulary
from slo.usage import Usage
from tests.examples import examples
from tests.proxy.tools.simulator.scene import (
    CLAUDE_TOOL,
    FLAT_TOOL,
    NOTES,
    TOOL,
    Json,
    SimulatorHarness,
    events,
    user,
)

OPENAI = [name for name, model in MODELS.items() if model.wire == "openai" and model.regime]
SMALL = {
    "claude-haiku-4-5": SimulatedModel(
        wire="anthropic",
        regime="anthropic-breakpoint",
        min_cache_tokens=512,
        traits=MODELS["claude-haiku-4-5"].traits,
    )
}


def turns(count: int) -> list[list[Json]]:
    """A conversation as it grows; what the model says is what the simulator would not say."""
    said: list[Json] = [{"role": "system", "content": NOTES * 3}]
    grown = []
    for number in range(count):
        said = [*said, user(f"Question {number}: may I return a parcel?")]
        grown.append(said)
        said = [*said, {"role": "assistant", "content": f"Answer {number}: you may. " * 40}]
    return grown


def cached(answer: Json) -> int:
    usage = answer["usage"]
    if "input_tokens" in usage:
        return int(usage["cache_read_input_tokens"])
    return int(usage["prompt_tokens_details"]["cached_tokens"])


@pytest.mark.parametrize("model", OPENAI)
def test_the_cached_prefix_grows_with_the_conversation(scene: SimulatorHarness, model: str) -> None:
    found = []
    for messages in turns(8):
        found.append(cached(scene.chat(model=model, messages=messages).json()))
        scene.clock.now += 5

    assert found[0] == 0
    assert found == sorted(found) or MODELS[model].regime == "implicit"
    assert found[-1] > len(NOTES) // 8


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

    assert {each.status_code for each in answers} == {400}
    assert {each.json()["error"]["code"] for each in answers} == {"context_length_exceeded"}
    assert [each.json()["error"]["param"] for each in answers] == [
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

    assert cached(scene.chat(messages=messages).json()) == 0
    assert cached(scene.chat(messages=messages).json()) > 0


def test_usage_adds_up_and_is_what_is_recorded(scene: SimulatorHarness) -> None:
    usage = scene.chat(reasoning_effort="low").json()["usage"]
    recorded = scene.lab.exchanges[-1].usage

    assert recorded is not None
    assert usage["prompt_tokens"] == recorded.prompt_tokens
    assert usage["completion_tokens"] == recorded.generated_tokens
    assert usage["completion_tokens_details"]["reasoning_tokens"] == recorded.reasoning == 64
    assert usage["total_tokens"] == recorded.prompt_tokens + recorded.generated_tokens


def test_completion_tokens_are_those_of_the_text(scene: SimulatorHarness) -> None:
    answer = scene.chat().json()
    text = answer["choices"][0]["message"]["content"]

    assert answer["usage"]["completion_tokens"] == len(scene.lab.vocabulary.ids(text))


def test_a_structured_answer_satisfies_its_schema(scene: SimulatorHarness) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    said = scene.chat(response_format=form).json()["choices"][0]["message"]["content"]

    assert isinstance(orjson.loads(said)["ok"], bool)


def test_tools_are_called_when_the_text_says_so_and_not_again(scene: SimulatorHarness) -> None:
    first = scene.chat("Read it. [[fault:call]]", tools=[TOOL]).json()["choices"][0]["message"]
    messages = [
        user("Read it. [[fault:call]]"),
        first,
        {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "text"},
    ]
    second = scene.chat(tools=[TOOL], messages=messages).json()["choices"][0]

    assert first["tool_calls"][0]["function"]["name"] == "read_file"
    assert second["finish_reason"] == "stop"


def test_a_tool_round_trip_on_the_other_wire(scene: SimulatorHarness) -> None:
    body: Json = {"tools": [CLAUDE_TOOL], "messages": [user("Go [[fault:call]]")]}
    first = scene.anthropic(body).json()
    result = {"type": "tool_result", "tool_use_id": first["content"][0]["id"], "content": "x"}
    body["messages"] += [
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [result]},
    ]

    assert first["stop_reason"] == "tool_use"
    assert scene.anthropic(body).json()["stop_reason"] == "end_turn"


def test_thinking_goes_back_as_it_came(scene: SimulatorHarness) -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    first = scene.anthropic({"thinking": thinking, "messages": [user("a")]}).json()
    said = {"role": "assistant", "content": first["content"]}
    after = {"thinking": thinking, "messages": [user("a"), said, user("b")]}

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


def test_a_response_calls_its_tools(scene: SimulatorHarness) -> None:
    body = {"model": "gpt-6.1-sol", "input": "a", "tools": [FLAT_TOOL], "tool_choice": "required"}
    first = scene.openai("responses", body).json()
    output = {
        "type": "function_call_output",
        "call_id": first["output"][0]["call_id"],
        "output": "x",
    }
    after = {"model": "gpt-6.1-sol", "input": [output], "previous_response_id": first["id"]}

    assert scene.openai("responses", after).json()["output"][0]["type"] == "message"


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


@pytest.mark.parametrize("model", ["gpt-nope", "claude-haiku-4-5"])
def test_a_model_of_no_or_another_wire_does_not_exist(scene: SimulatorHarness, model: str) -> None:
    answer = scene.chat(model=model)

    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    "fields",
    [
        {"model": None},
        {"messages": [5]},
        {"messages": [{"role": "user", "content": [{"no": "type"}]}]},
        {"tools": [{"type": "function"}]},
        {"tools": 5},
        {"n": "many"},
        {"model": "text-embedding-3-small"},
        {"prompt_cache_options": {"ttl": "5m"}},
        {"n": -1},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"enum": []}}}},
    ],
)
def test_a_body_of_the_wrong_shape_is_refused_and_no_bug(
    scene: SimulatorHarness, fields: dict[str, Any]
) -> None:
    answer = scene.chat(**fields)

    assert answer.status_code == 400
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "name", "role", "content", "text"]), inner)
    ),
    max_leaves=6,
)
BODIES: dict[str, Json] = {
    "chat/completions": {
        "model": "gpt-6.1-sol",
        "messages": [user("[[fault:call]]")],
        "tools": [TOOL],
        "tool_choice": "required",
        "response_format": {"type": "json_object"},
        "stop": "x",
        "n": 2,
        "max_completion_tokens": 5,
        "reasoning_effort": "low",
        "prompt_cache_options": {},
        "stream_options": {},
    },
    "responses": {
        "model": "gpt-6.1-sol",
        "input": [user("[[fault:call]]")],
        "tools": [FLAT_TOOL],
        "text": {"format": {"type": "json_object"}},
        "reasoning": {"effort": "low"},
        "include": [],
        "instructions": "a",
        "max_output_tokens": 5,
    },
    "completions": {"model": "gpt-6.1-sol", "prompt": "a", "stop": "b", "max_tokens": 5},
    "embeddings": {"model": "text-embedding-3-small", "input": "a", "dimensions": 5},
    "messages": {
        "messages": [user("[[fault:call]]")],
        "system": "a",
        "tools": [CLAUDE_TOOL],
        "tool_choice": {"type": "any"},
        "thinking": {"type": "disabled"},
        "output_config": {},
        "cache_control": {"type": "ephemeral"},
        "stop_sequences": ["a"],
        "max_tokens": 5,
    },
}


@pytest.mark.parametrize("path", BODIES)
@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(choice=st.data())
def test_no_body_however_odd_is_a_bug(
    scene: SimulatorHarness, path: str, choice: st.DataObject
) -> None:
    body = BODIES[path]
    field = choice.draw(st.sampled_from(sorted(body)))
    place: Json = body | {field: choice.draw(JUNK)}
    if isinstance(body[field], list) and body[field] and choice.draw(st.booleans()):
        junk = {choice.draw(st.sampled_from(["content", "role", "type"])): choice.draw(JUNK)}
        first = body[field][0]
        place[field] = [first | junk if isinstance(first, dict) else junk]

    answer = scene.anthropic(place) if path == "messages" else scene.openai(path, place)

    assert answer.status_code in (200, 400, 404)


def test_limits_are_kept(vocabulary: Vocabulary) -> None:
    scene = SimulatorHarness(vocabulary, requests_per_minute=2, time_scale=0)
    statuses = [scene.chat().status_code for _ in range(3)]
    refused = scene.chat()

    assert statuses == [200, 200, 429]
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    scene.clock.now += float(refused.headers["retry-after-ms"]) / 1000 + 0.001
    assert scene.chat().status_code == 200


def test_anthropics_cache_reads_do_not_count_against_the_rate_limit(
    vocabulary: Vocabulary,
) -> None:
    scene = SimulatorHarness(vocabulary, SMALL, tokens_per_minute=4000, time_scale=0)
    body = {"messages": [user(NOTES)], "cache_control": {"type": "ephemeral"}}

    assert [scene.anthropic(body).status_code for _ in range(5)] == [200] * 5


def chat_usages(scene: SimulatorHarness, cues: str) -> list[Json]:
    answer = scene.chat(cues=cues, stream=True, stream_options={"include_usage": True})
    return [data["usage"] for _, data in events(answer) if data and data.get("usage")]


def test_a_stream_says_its_usage_as_cued(scene: SimulatorHarness) -> None:
    (usual,) = chat_usages(scene, "")

    assert chat_usages(scene, "no-usage") == []
    assert chat_usages(scene, "double-usage") == [usual, usual]
    early, final = chat_usages(scene, "early-usage")
    assert early["completion_tokens"] < final["completion_tokens"]
    assert final == usual
    assert chat_usages(scene, "zero-usage")[0]["total_tokens"] == 0


def claude_usages(scene: SimulatorHarness, cues: str) -> list[Json]:
    answer = scene.anthropic({"messages": [user("a")], "stream": True}, cues=cues)
    held = [data.get("message", data) for _, data in events(answer)]
    return [data["usage"] for data in held if "usage" in data]


def test_a_stream_of_the_other_wire_says_its_usage_as_cued(scene: SimulatorHarness) -> None:
    start, end = claude_usages(scene, "")

    assert claude_usages(scene, "no-usage") == []
    assert claude_usages(scene, "double-usage") == [start, end, end]
    _, early, final = claude_usages(scene, "early-usage")
    assert early["output_tokens"] < final["output_tokens"]
    assert claude_usages(scene, "zero-usage")[1]["output_tokens"] == 0


def test_a_json_answer_can_hold_no_usage_or_nothing(scene: SimulatorHarness) -> None:
    assert "usage" not in scene.chat(cues="no-usage").json()
    assert scene.chat(cues="zero-usage").json()["usage"]["prompt_tokens"] == 0
    recorded = scene.lab.exchanges[-1].usage
    assert recorded is not None
    assert recorded.prompt_tokens > 0


@pytest.mark.parametrize("cues", ["malformed", "short"])
def test_a_json_answer_can_be_broken_and_yet_complete(scene: SimulatorHarness, cues: str) -> None:
    answer = scene.chat(cues=cues)

    assert answer.headers["content-length"] == str(len(answer.content))
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(answer.content)


def test_keep_alives_come_before_the_answer(scene: SimulatorHarness) -> None:
    streamed = scene.chat(cues="keepalives=3", stream=True)
    whole = scene.chat(cues="keepalives=3")
    claude = scene.anthropic({"messages": [user("a")], "stream": True}, cues="keepalives=2")

    assert streamed.text.startswith(": keep-alive\n\n" * 3 + "data: ")
    assert whole.content.startswith(b"\n\n\n{")
    assert whole.json()["choices"]
    assert "content-length" not in whole.headers
    assert [name for name, _ in events(claude)][:3] == ["ping", "ping", "message_start"]


@pytest.mark.parametrize(
    ("path", "body", "last"),
    [
        ("chat/completions", {"messages": [user("a")]}, {"error"}),
        ("responses", {"input": "a"}, {"type", "sequence_number", "message", "param", "code"}),
    ],
)
def test_an_error_can_end_a_stream(
    scene: SimulatorHarness, path: str, body: Json, last: set[str]
) -> None:
    answer = scene.openai(
        path, {"model": "gpt-6.1-sol", "stream": True} | body, cues="error-event=1"
    )

    assert set(events(answer)[-1][1]) == last


def test_an_overload_can_end_a_stream_of_the_other_wire(scene: SimulatorHarness) -> None:
    answer = scene.anthropic({"messages": [user("a")], "stream": True}, cues="error-event")
    name, data = events(answer)[-1]

    assert name == "error"
    assert data["error"]["type"] == "overloaded_error"


def test_vectors_are_charged_as_input(scene: SimulatorHarness) -> None:
    body = {"model": "text-embedding-3-small", "input": "Hello world"}
    answer = scene.openai("embeddings", body).json()

    assert len(answer["data"][0]["embedding"]) == 1536
    assert scene.lab.exchanges[-1].usage == Usage(input=2)
