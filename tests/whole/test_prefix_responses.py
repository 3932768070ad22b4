"""Responses calls through a gateway: planned in their own words, with what chat's calls gain."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from proxy.records.feature_mode import PlanningMode
from slo.usage import Usage
from tests.fakes.handbook import handbook, question
from tests.fakes.prefix_harness import MODELS, PrefixHarness, prefix_harness

RULES = handbook(40, "rules")
NEWEST = MODELS["openai-breakpoint"]
OLDER = MODELS["openai-interval"]
CALLS = 8


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[PrefixHarness]:
    with prefix_harness(tmp_path) as running:
        running.plan("desk", PlanningMode.OBSERVE)
        yield running


def usage_and_answer(
    harness: PrefixHarness, feature: str = "desk", **fields: Any
) -> tuple[Usage, httpx.Response]:
    """Return what the simulator charged for a call, and its answer."""
    harness.clock.past += 30.0
    harness.gateway.store.board.refresh()
    harness.lab.queue_directives(["words=20"])
    answer = harness.client.post(
        f"{harness.url}/responses",
        content=orjson.dumps({"model": NEWEST, **fields}),
        headers={
            "authorization": f"Bearer {harness.key}",
            "content-type": "application/json",
            "x-thriftgate-feature": feature,
        },
    )
    assert answer.status_code == 200, answer.text
    charged = harness.lab.exchanges[-1].usage
    assert charged is not None
    return charged, answer


def last_body(harness: PrefixHarness) -> Any:
    return orjson.loads(harness.lab.exchanges[-1].body)


def said(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


RULED: dict[str, dict[str, Any]] = {
    "rules among the items": {"input": [said("developer", RULES)]},
    "instructions that nobody stores": {"instructions": RULES, "store": False, "input": []},
}


@pytest.mark.parametrize("how", RULED)
def test_rules_before_one_varying_question_are_read_from_the_second_call_on(
    harness: PrefixHarness, how: str
):
    fields = RULED[how]
    charged = []
    for number in range(CALLS):
        items = [*fields["input"], said("user", question(f"one {number}"))]
        charged.append(usage_and_answer(harness, **{**fields, "input": items})[0])

    rules = len(harness.lab.vocabulary.ids(RULES))
    assert charged[0].cache_read == 0
    assert all(usage.cache_read >= rules for usage in charged[1:])
    assert sum(usage.cache_write_tokens for usage in charged) < 1.5 * charged[0].prompt_tokens


def test_rules_before_one_varying_question_are_not_read_as_sent(harness: PrefixHarness):
    harness.plan("plain", PlanningMode.OFF)
    charged = []
    for number in range(3):
        items = [said("developer", RULES), said("user", question(f"one {number}"))]
        charged.append(usage_and_answer(harness, "plain", input=items)[0])

    assert {usage.cache_read for usage in charged} == {0}


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("model", [NEWEST, OLDER])
def test_a_conversation_with_tools_reads_what_it_sent(
    harness: PrefixHarness, model: str, *, stored: bool
):
    names = ["b", "a", "c"]
    items: list[dict[str, Any]] = [said("user", RULES)]
    reads = []
    for turn in range(4):
        tools = [{"type": "function", "name": name, "parameters": {}} for name in names]
        fields: dict[str, Any] = {"tools": tools, "instructions": "Be kind.", "store": stored}
        charged, answer = usage_and_answer(harness, model=model, input=items, **fields)
        reads.append(charged.cache_read / charged.prompt_tokens)
        items += answer.json()["output"]
        call = {"type": "function_call", "call_id": f"call_{turn}", "name": "a", "arguments": "{}"}
        result = {
            "type": "function_call_output",
            "call_id": f"call_{turn}",
            "output": f"It's {turn}.",
        }
        items += [call, result]
        names = names[1:] + names[:1]

    assert reads[0] == 0
    assert min(reads[1:]) > (0.85 if model == OLDER else 0.9)  # the older reads whole intervals


def test_a_call_that_goes_on_from_what_is_stored_goes_as_it_came_and_says_why(
    harness: PrefixHarness,
):
    _, first = usage_and_answer(harness, input=RULES)
    fields = {"input": "So? " * 600, "previous_response_id": first.json()["id"]}
    _, answer = usage_and_answer(harness, **fields)

    assert "what its provider keeps" in answer.headers["x-thriftgate-notes"]
    assert last_body(harness) == {"model": NEWEST, **fields}


def test_tags_reach_no_model_planned_or_not(harness: PrefixHarness):
    harness.plan("plain", PlanningMode.OFF)
    tagged = "<tg:stable>Be kind.</tg:stable> It is noon."
    for feature in ("plain", "desk"):
        usage_and_answer(harness, feature, instructions=tagged, input=RULES)

        assert last_body(harness)["instructions"] == "Be kind. It is noon."
        _, first = usage_and_answer(harness, feature, input=RULES)
        fields = {"previous_response_id": first.json()["id"]}
        usage_and_answer(harness, feature, instructions=tagged, input="So? " * 600, **fields)

        assert last_body(harness)["instructions"] == "Be kind. It is noon."


def test_a_responses_call_without_a_plan_is_sent_unmodified(harness: PrefixHarness):
    fields = {"instructions": "Be kind.", "input": RULES, "tools": []}
    harness.plan("plain", PlanningMode.OFF)
    usage_and_answer(harness, "plain", **fields)

    assert last_body(harness) == {"model": NEWEST, **fields}
