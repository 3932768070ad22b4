"""Hints for schedulers: in whose words, in which order, and never over the caller's own."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.port import PreparedRequest
from proxy.providers.scheduling_hints import (
    DYNAMO,
    FAIRNESS_HEADER,
    LLM_D,
    OBJECTIVE_HEADER,
    PATIENT_S,
    TPOT_HEADER,
    TTFT_HEADER,
    VLLM,
    CallHints,
    add_hints,
    vllm_priority,
)

URGENT = CallHints(
    first_token_s=0.5,
    token_s=0.02,
    wait_s=0.5,
    objective="chat_fast",
    fairness_id="f" * 32,
    output_tokens=300,
)
ALL = frozenset({VLLM, LLM_D, DYNAMO})


def prepared_request(
    path: str = "/chat/completions", headers: dict[str, str] | None = None, **body: Any
) -> PreparedRequest:
    sent_body = orjson.dumps({"model": "m", **body})
    return PreparedRequest(method="POST", path=path, headers=headers or {}, body=sent_body)


def body_with(kinds: frozenset[str], hints: CallHints = URGENT, **body: Any) -> dict[str, Any]:
    fields: dict[str, Any] = orjson.loads(add_hints(prepared_request(**body), kinds, hints).body)
    return fields


def test_vllm_is_told_the_milliseconds_that_are_left_and_nothing_else():
    hinted = add_hints(prepared_request(), frozenset({VLLM}), URGENT)

    assert orjson.loads(hinted.body) == {"model": "m", "priority": 500}
    assert hinted.headers == {}


def test_llm_d_is_told_limits_objective_and_team_in_headers_and_the_body_is_not_touched():
    sent = prepared_request(headers={"accept": "a"})
    hinted = add_hints(sent, frozenset({LLM_D}), URGENT)

    assert hinted.headers == {
        "accept": "a",
        TTFT_HEADER: "500",
        TPOT_HEADER: "20",
        OBJECTIVE_HEADER: "chat-fast",
        FAIRNESS_HEADER: "f" * 32,
    }
    assert hinted.body is sent.body


def test_dynamo_is_told_how_much_earlier_the_call_goes_and_the_output_expected():
    assert body_with(frozenset({DYNAMO}))["nvext"] == {
        "agent_hints": {"priority": 60, "strict_priority": 1, "osl": 300}
    }


def test_a_call_without_a_limit_can_wait_and_one_that_nobody_waits_for_comes_last():
    patient, background = CallHints(), CallHints(is_background=True, output_tokens=1)

    assert vllm_priority(URGENT) < vllm_priority(patient) < vllm_priority(background)
    assert body_with(frozenset({DYNAMO}), patient)["nvext"]["agent_hints"] == {
        "priority": 0,
        "strict_priority": 1,
    }
    assert body_with(frozenset({DYNAMO}), background)["nvext"]["agent_hints"] == {"osl": 1}
    assert add_hints(prepared_request(), frozenset({LLM_D}), patient).headers == {}


def test_hints_of_the_caller_stay_and_missing_ones_are_added():
    fields: dict[str, Any] = {
        "priority": -3,
        "nvext": {"use_raw_prompt": True, "agent_hints": {"priority": 7, "osl": 9}},
    }
    body = body_with(ALL, **fields)

    assert body["priority"] == -3
    assert body["nvext"] == {
        "use_raw_prompt": True,
        "agent_hints": {"priority": 7, "osl": 9, "strict_priority": 1},
    }
    own = {TTFT_HEADER: "9", OBJECTIVE_HEADER: "mine"}
    headers = add_hints(prepared_request(headers=own), frozenset({LLM_D}), URGENT).headers
    assert (headers[TTFT_HEADER], headers[OBJECTIVE_HEADER]) == ("9", "mine")
    assert headers[TPOT_HEADER] == "20"


def test_the_team_is_the_gateways_to_name_whatever_the_caller_says():
    headers = add_hints(
        prepared_request(headers={FAIRNESS_HEADER: "another-team"}), frozenset({LLM_D}), URGENT
    ).headers

    assert headers[FAIRNESS_HEADER] == "f" * 32


@pytest.mark.parametrize("nvext", [3, "no", [1], {"agent_hints": [1]}])
def test_an_nvext_that_is_no_table_is_the_engines_to_refuse(nvext: Any):
    assert body_with(frozenset({DYNAMO}), nvext=nvext)["nvext"] == nvext


def test_null_hints_of_the_caller_are_filled_in():
    body = body_with(ALL, priority=None, nvext=None)

    assert body["priority"] == 500
    assert body["nvext"]["agent_hints"]["osl"] == 300


@pytest.mark.parametrize("path", ["/embeddings", "/models", "/responses/compact"])
def test_a_call_that_generates_nothing_is_sent_without_hints(path: str):
    sent = prepared_request(path)

    assert add_hints(sent, ALL, URGENT) is sent


def test_responses_have_a_priority_and_no_nvext():
    body = orjson.loads(add_hints(prepared_request("/responses"), ALL, URGENT).body)

    assert body == {"model": "m", "priority": 500}


@pytest.mark.parametrize("name", ["", "Größe", "-a", "a b", "a/b\r\nx: y"])
def test_an_objective_whose_name_no_resource_can_have_is_not_named(name: str):
    hints = CallHints(objective=name, first_token_s=1.0)

    assert OBJECTIVE_HEADER not in add_hints(prepared_request(), frozenset({LLM_D}), hints).headers


@given(
    st.floats(0, 1e6),
    st.floats(0, 1e6),
)
def test_who_has_less_time_never_goes_later(one: float, two: float):
    less, more = sorted((one, two))
    first, second = CallHints(wait_s=less), CallHints(wait_s=more)
    bumps = [
        body_with(frozenset({DYNAMO}), hints)["nvext"]["agent_hints"]["priority"]
        for hints in (first, second)
    ]

    assert vllm_priority(first) <= vllm_priority(second) <= PATIENT_S * 1_000
    assert bumps[0] >= bumps[1] >= 0
