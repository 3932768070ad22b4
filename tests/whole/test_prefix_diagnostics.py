"""A provider's own reason for a miss: asked for, joined, and kept from the caller."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from proxy.cli.explain import attempt_lines
from proxy.records.feature_mode import PlanningMode
from proxy.records.receipt import Receipt
from tests.fakes.handbook import handbook
from tests.fakes.prefix_harness import PrefixHarness, prefix_harness

RULES = handbook(40, "rules")
CLAUDE = "claude-sonnet-5-5"
GPT = "gpt-6.1-sol"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[PrefixHarness]:
    with prefix_harness(tmp_path) as made:
        made.plan("desk", PlanningMode.OBSERVE)
        yield made


def said(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


def tool(name: str) -> dict[str, Any]:
    function = {"name": name, "description": f"Does {name}.", "parameters": {"type": "object"}}
    return {"type": "function", "function": function}


def talk(turns: int, rules: str = RULES) -> list[dict[str, Any]]:
    spoken = [said("system", rules), said("user", "Where is my parcel?")]
    for turn in range(turns):
        spoken += [said("assistant", f"Case {turn} is open."), said("user", "Which one?")]
    return spoken


def ask(
    harness: PrefixHarness, path: str, sent: dict[str, Any], headers: dict[str, str] | None = None
) -> httpx.Response:
    """The answer to a call of the next minute."""
    harness.clock.past += 60.0
    harness.gateway.store.board.refresh()
    answer = harness.client.post(
        f"{harness.url}/{path}",
        content=orjson.dumps(sent),
        headers={
            "authorization": f"Bearer {harness.key}",
            "content-type": "application/json",
            "x-thriftgate-feature": "desk",
            **(headers or {}),
        },
    )
    assert answer.status_code == 200, answer.text
    return answer


def chat(harness: PrefixHarness, turns: int, **fields: Any) -> httpx.Response:
    body = {"model": CLAUDE, "messages": talk(turns), **fields}
    return ask(harness, "chat/completions", body)


def last_body(harness: PrefixHarness) -> Any:
    return orjson.loads(harness.lab.exchanges[-1].body)


def receipt(harness: PrefixHarness, answer: httpx.Response) -> Receipt:
    assert harness.gateway.store.drain.flush(30)
    return harness.gateway.store.ledger.attempts(answer.headers["x-request-id"])[-1]


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_that_changed_is_told_by_anthropic_too(harness: PrefixHarness, *, stream: bool):
    chat(harness, 0, tools=[tool("find")])
    answer = chat(harness, 1, tools=[tool("seek")], stream=stream)

    found = receipt(harness, answer)
    assert found.miss == "diverged"
    assert found.miss_detail.endswith("the provider says the tools changed")
    assert any("the provider says" in line for line in attempt_lines(found, "acme"))
    assert "diagnostics" not in answer.text
    assert "cache_miss" not in answer.text


def test_each_call_names_the_answer_before_it(harness: PrefixHarness):
    for turns in range(3):
        chat(harness, turns)

    first, *later = [orjson.loads(each.body)["diagnostics"] for each in harness.lab.exchanges]
    answers = [orjson.loads(each.sent)["id"] for each in harness.lab.exchanges]
    assert first == {"previous_message_id": None}
    assert [each["previous_message_id"] for each in later] == answers[:-1]
    assert {each.headers["anthropic-beta"] for each in harness.lab.exchanges} == {
        "cache-diagnosis-2026-04-07"
    }


def test_a_callers_own_beta_features_are_kept(harness: PrefixHarness):
    sent = {"model": CLAUDE, "messages": talk(0)}
    ask(harness, "chat/completions", sent, {"anthropic-beta": "files-api-2025-04-14"})

    betas = harness.lab.exchanges[-1].headers["anthropic-beta"]
    assert betas == "files-api-2025-04-14,cache-diagnosis-2026-04-07"


def test_a_conversation_that_goes_on_well_has_no_reason(harness: PrefixHarness):
    for turn in range(16):
        chat(harness, turn)
    found = receipt(harness, chat(harness, 16))

    assert (found.miss, found.usage is not None and found.usage.cache_read > 1_000) == ("", True)


def test_a_question_that_is_refused_is_asked_no_more(harness: PrefixHarness, caplog):
    chat(harness, 0)
    harness.lab.queue_directives(["400", "ok", "ok"])
    answers = [chat(harness, 1), chat(harness, 2)]

    assert "diagnostics" not in last_body(harness)
    assert receipt(harness, answers[-1]).arm == "treated"
    assert "is not asked for them again" in caplog.text


def test_where_nothing_is_planned_nothing_is_asked(harness: PrefixHarness):
    harness.plan("desk", PlanningMode.OFF)
    chat(harness, 0)
    chat(harness, 1)

    assert "diagnostics" not in last_body(harness)


def respond(
    harness: PrefixHarness, turns: int, rules: str = RULES, **fields: Any
) -> httpx.Response:
    items = talk(turns)[1:]
    return ask(
        harness, "responses", {"model": GPT, "instructions": rules, "input": items, **fields}
    )


@pytest.mark.parametrize("stream", [False, True])
def test_openais_diagnosis_is_read_and_kept_from_the_caller(
    harness: PrefixHarness, *, stream: bool
):
    rules = [said("developer", RULES)]
    respond(harness, 0, input=[*rules, said("user", "Hm?")], tools=[function("find")])
    items = [*rules, said("user", "Hm?"), said("assistant", "Yes."), said("user", "So?")]
    answer = respond(harness, 1, input=items, tools=[function("seek")], stream=stream)

    found = receipt(harness, answer)
    assert last_body(harness)["prompt_cache_options"]["comparison_response_id"]
    assert b"prompt_cache_diagnostics" in harness.lab.exchanges[-1].sent
    assert found.miss_detail.endswith("the provider says the tools changed")
    assert "diagnostics" not in answer.text
    assert "comparison" not in answer.text


def test_a_caller_who_asks_openai_gets_the_answer(harness: PrefixHarness):
    first = respond(harness, 0).json()
    own = {"comparison_response_id": first["id"]}
    answer = respond(harness, 1, prompt_cache_options=own).json()

    assert answer["prompt_cache_diagnostics"] == {"type": "cache_hit"}
    assert answer["prompt_cache_options"]["comparison_response_id"] == first["id"]


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": {"type": "object"}}
