"""Tests of what the simulator says of its caches to those who ask, as the providers do."""

from typing import Any

import orjson
import pytest

from tests.proxy.tools.simulator.scene import FLAT_TOOL, NOTES, SimulatorHarness

CLAUDE = "claude-sonnet-5-5"
NEWEST = "gpt-6.1-sol"


def message(scene: SimulatorHarness, previous: str | None = None, **fields: Any) -> Any:
    body = {
        "model": CLAUDE,
        "max_tokens": 20,
        "system": NOTES,
        "messages": [{"role": "user", "content": "Hello."}],
        "diagnostics": {"previous_message_id": previous},
        **fields,
    }
    headers = {"anthropic-version": "2023-06-01", "x-api-key": "sk"}
    return scene.send("POST", "messages", body, headers=headers).json()


def respond(scene: SimulatorHarness, previous: str | None = None, **fields: Any) -> Any:
    options = {} if previous is None else {"comparison_response_id": previous}
    body = {"model": NEWEST, "instructions": NOTES, "input": "Hello.", **fields}
    sent = {**body, **({"prompt_cache_options": options} if options else {})}
    headers = {"authorization": "Bearer sk"}
    return scene.send("POST", "responses", sent, headers=headers).json()


MORE = [
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "Good morning."},
    {"role": "user", "content": "So?"},
]


def test_anthropic_finds_no_difference_where_a_conversation_goes_on(scene: SimulatorHarness):
    first = message(scene)

    assert first["diagnostics"] is None
    assert message(scene, first["id"], messages=MORE)["diagnostics"] is None


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"model": "claude-haiku-4-5"}, "model_changed"),
        ({"system": "Be brief."}, "system_changed"),
        ({"messages": [{"role": "user", "content": "Good day."}]}, "messages_changed"),
        ({"tools": [{"name": "find", "input_schema": {"type": "object"}}]}, "system_changed"),
    ],
)
def test_anthropic_names_the_first_difference(
    scene: SimulatorHarness, changed: dict[str, Any], reason: str
):
    found = message(scene, message(scene)["id"], **changed)["diagnostics"]["cache_miss_reason"]

    assert found["type"] == reason
    assert found["cache_missed_input_tokens"] > 0


def test_anthropic_keeps_nothing_of_a_call_that_did_not_ask(scene: SimulatorHarness):
    silent = message(scene, diagnostics=None)
    found = message(scene, silent["id"])["diagnostics"]

    assert "diagnostics" not in silent
    assert found == {"cache_miss_reason": {"type": "previous_message_not_found"}}


def test_a_stream_tells_it_at_its_start(scene: SimulatorHarness):
    first = message(scene)["id"]
    body = {"model": CLAUDE, "max_tokens": 20, "system": "Be brief.", "stream": True}
    body |= {"messages": MORE, "diagnostics": {"previous_message_id": first}}
    headers = {"anthropic-version": "2023-06-01", "x-api-key": "sk"}
    answer = scene.send("POST", "messages", body, headers=headers)
    begun = orjson.loads(answer.text.split("data: ")[1].split("\n")[0])

    assert begun["message"]["diagnostics"]["cache_miss_reason"]["type"] == "system_changed"


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, ("cache_hit", None)),
        ({"input": MORE}, ("cache_hit", None)),
        ({"input": "Good day."}, ("cache_miss", "input_changed")),
        ({"tools": [FLAT_TOOL]}, ("cache_miss", "input_changed")),
        ({"prompt_cache_key": "k"}, ("cache_miss", "prompt_cache_key_changed")),
        ({"reasoning": {"effort": "low"}}, ("cache_miss", "reasoning_effort_changed")),
        ({"text": {"verbosity": "low"}}, ("cache_miss", "verbosity_changed")),
        ({"service_tier": "flex"}, ("cache_miss", "service_tier_changed")),
    ],
)
def test_openai_compares_with_the_response_that_is_named(
    scene: SimulatorHarness, changed: Any, found: Any
):
    answer = respond(scene, respond(scene)["id"], **changed)
    said = answer["prompt_cache_diagnostics"]

    assert (said["type"], said.get("reason")) == found
    assert answer["prompt_cache_options"]["comparison_response_id"]


def test_openai_says_where_it_knows_no_such_response(scene: SimulatorHarness):
    said = respond(scene, "resp_nobody")["prompt_cache_diagnostics"]

    assert said == {"type": "comparison_response_not_found"}
    assert "prompt_cache_diagnostics" not in respond(scene)


def test_earlier_models_refuse_what_they_do_not_know(scene: SimulatorHarness):
    old = {"model": "gpt-5.5", "input": MORE, "prompt_cache_options": {"mode": "explicit"}}
    headers = {"authorization": "Bearer sk"}

    assert scene.send("POST", "responses", old, headers=headers).status_code == 400


def test_prompts_kept_for_diagnostics_are_bounded(vocabulary):
    scene = SimulatorHarness(vocabulary, kept=2)
    first = respond(scene)["id"]
    for _ in range(2):
        last = respond(scene)["id"]

    found = [respond(scene, each)["prompt_cache_diagnostics"]["type"] for each in (last, first)]
    assert found == ["cache_hit", "comparison_response_not_found"]
