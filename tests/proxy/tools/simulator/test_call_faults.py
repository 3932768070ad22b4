"""Calls that are wrong, limited, or answered with a fault."""

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from proxy.tools.simulator.rendering import Vocabulary
from tests.examples import examples
from tests.proxy.tools.simulator.scene import (
    CLAUDE_TOOL,
    FLAT_TOOL,
    NOTES,
    SMALL,
    TOOL,
    Json,
    SimulatorHarness,
    events,
    user,
)


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
