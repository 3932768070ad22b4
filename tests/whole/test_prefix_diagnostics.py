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
def here(tmp_path: Path) -> Iterator[PrefixHarness]:
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


def asked(
    here: PrefixHarness, path: str, sent: dict[str, Any], headers: dict[str, str] | None = None
) -> httpx.Response:
    """The answer to a call of the next minute."""
    here.clock.past += 60.0
    here.gateway.store.board.refresh()
    answer = here.client.post(
        f"{here.url}/{path}",
        content=orjson.dumps(sent),
        headers={
            "authorization": f"Bearer {here.key}",
            "content-type": "application/json",
            "x-thriftgate-feature": "desk",
            **(headers or {}),
        },
    )
    assert answer.status_code == 200, answer.text
    return answer


def chat(here: PrefixHarness, turns: int, **fields: Any) -> httpx.Response:
    body = {"model": CLAUDE, "messages": talk(turns), **fields}
    return asked(here, "chat/completions", body)


def received(here: PrefixHarness) -> Any:
    return orjson.loads(here.lab.exchanges[-1].body)


def receipt(here: PrefixHarness, answer: httpx.Response) -> Receipt:
    assert here.gateway.store.drain.flush(30)
    return here.gateway.store.ledger.attempts(answer.headers["x-request-id"])[-1]


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_that_changed_is_told_by_anthropic_too(here: PrefixHarness, *, stream: bool):
    chat(here, 0, tools=[tool("find")])
    answer = chat(here, 1, tools=[tool("seek")], stream=stream)

    found = receipt(here, answer)
    assert found.miss == "diverged"
    assert found.miss_detail.endswith("the provider says the tools changed")
    assert any("the provider says" in line for line in attempt_lines(found, "acme"))
    assert "diagnostics" not in answer.text
    assert "cache_miss" not in answer.text


def test_each_call_names_the_answer_before_it(here: PrefixHarness):
    for turns in range(3):
        chat(here, turns)

    first, *later = [orjson.loads(each.body)["diagnostics"] for each in here.lab.exchanges]
    answers = [orjson.loads(each.sent)["id"] for each in here.lab.exchanges]
    assert first == {"previous_message_id": None}
    assert [each["previous_message_id"] for each in later] == answers[:-1]
    assert {each.headers["anthropic-beta"] for each in here.lab.exchanges} == {
        "cache-diagnosis-2026-04-07"
    }


def test_a_callers_own_beta_features_are_kept(here: PrefixHarness):
    sent = {"model": CLAUDE, "messages": talk(0)}
    asked(here, "chat/completions", sent, {"anthropic-beta": "files-api-2025-04-14"})

    betas = here.lab.exchanges[-1].headers["anthropic-beta"]
    assert betas == "files-api-2025-04-14,cache-diagnosis-2026-04-07"


def test_a_conversation_that_goes_on_well_has_no_reason(here: PrefixHarness):
    for turn in range(12):
        chat(here, turn)
    found = receipt(here, chat(here, 12))

    assert (found.miss, found.usage is not None and found.usage.cache_read > 1_000) == ("", True)


def test_a_question_that_is_refused_is_asked_no_more(here: PrefixHarness, caplog):
    chat(here, 0)
    here.lab.queue_directives(["400", "ok", "ok"])
    answers = [chat(here, 1), chat(here, 2)]

    assert "diagnostics" not in received(here)
    assert receipt(here, answers[-1]).arm == "treated"
    assert "is not asked for them again" in caplog.text


def test_where_nothing_is_planned_nothing_is_asked(here: PrefixHarness):
    here.plan("desk", PlanningMode.OFF)
    chat(here, 0)
    chat(here, 1)

    assert "diagnostics" not in received(here)


def respond(here: PrefixHarness, turns: int, rules: str = RULES, **fields: Any) -> httpx.Response:
    items = talk(turns)[1:]
    return asked(here, "responses", {"model": GPT, "instructions": rules, "input": items, **fields})


@pytest.mark.parametrize("stream", [False, True])
def test_openais_diagnosis_is_read_and_kept_from_the_caller(here: PrefixHarness, *, stream: bool):
    rules = [said("developer", RULES)]
    respond(here, 0, input=[*rules, said("user", "Hm?")], tools=[function("find")])
    items = [*rules, said("user", "Hm?"), said("assistant", "Yes."), said("user", "So?")]
    answer = respond(here, 1, input=items, tools=[function("seek")], stream=stream)

    found = receipt(here, answer)
    assert received(here)["prompt_cache_options"]["comparison_response_id"]
    assert b"prompt_cache_diagnostics" in here.lab.exchanges[-1].sent
    assert found.miss_detail.endswith("the provider says the tools changed")
    assert "diagnostics" not in answer.text
    assert "comparison" not in answer.text


def test_a_caller_who_asks_openai_gets_the_answer(here: PrefixHarness):
    first = respond(here, 0).json()
    own = {"comparison_response_id": first["id"]}
    answer = respond(here, 1, prompt_cache_options=own).json()

    assert answer["prompt_cache_diagnostics"] == {"type": "cache_hit"}
    assert answer["prompt_cache_options"]["comparison_response_id"] == first["id"]


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": {"type": "object"}}
