"""Thinking and its efforts, as models take them."""

from typing import Any

import msgspec
import orjson
import pytest

from proxy.calls.translation.translation import prepare
from proxy.providers.chat.chat_body import Fields
from proxy.providers.fitting.efforts import THINKING_DISABLED, disable_unasked_thinking
from tests.fakes.call_dependencies import call, route

TRAITS = frozenset({"max_tokens", "effort", "effort_max", "thinks_by_default"})
HELLO = {"role": "user", "content": "Hi"}
CALL = {"role": "assistant", "tool_calls": [{"id": "1"}]}


def fields(**fields: Any) -> Fields:
    return msgspec.json.decode(orjson.dumps({"messages": [HELLO], **fields}), type=Fields)


@pytest.mark.parametrize(
    ("given_fields", "is_disabled"),
    [
        ({}, True),
        ({"reasoning_effort": None}, True),
        ({"reasoning_effort": "none"}, True),
        ({"reasoning_effort": "low"}, False),
        ({"reasoning_effort": "low", "messages": [HELLO, CALL]}, True),
        (
            {"reasoning_effort": "low", "messages": [HELLO, {**CALL, "reasoning_content": "Hm"}]},
            False,
        ),
        ({"reasoning_effort": "low", "messages": 7}, True),
    ],
)
def test_thinking_is_disabled_unless_it_is_asked_for_and_can_go_on(given_fields, is_disabled):
    body = fields(**given_fields)

    assert disable_unasked_thinking(body) is is_disabled
    assert ("reasoning_effort" in body) is not is_disabled
    assert (body.get("thinking") == msgspec.Raw(b'{"type":"disabled"}')) is is_disabled


@pytest.mark.parametrize(
    ("given_fields", "becomes"),
    [
        ({}, {"thinking": {"type": "disabled"}}),
        ({"thinking": {"type": "disabled"}}, {"thinking": {"type": "disabled"}}),
        ({"thinking": {"type": "adaptive"}}, {"reasoning_effort": "high"}),
        ({"reasoning_effort": "xhigh"}, {"reasoning_effort": "high"}),
    ],
)
def test_a_translated_call_says_how_it_thinks(given_fields, becomes):
    body = orjson.dumps({"model": "m", "messages": [HELLO], **given_fields})
    there = route("deepseek", traits=TRAITS, model="deepseek-v4-pro")
    prepared = prepare(call(body), there, is_substitute=True)
    sent = orjson.loads(prepared.body)

    assert {name: sent[name] for name in sent if name not in {"model", "messages"}} == becomes
    assert (THINKING_DISABLED in prepared.notes) is ("thinking" in becomes)
    assert prepare(call(body), there).body == body.replace(b'"m"', b'"deepseek-v4-pro"')
