"""Compaction by the provider itself."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses.response_create_params import ContextManagement
from pydantic import TypeAdapter

from proxy.catalog.entries import Route, Upstream
from proxy.providers.anthropic.adapter import AnthropicWire
from proxy.providers.native_compaction import (
    NativeCompactionCall,
    is_native,
    request_native_compaction,
)
from tests.fakes.anthropic_types import anthropic_type
from tests.fakes.call_dependencies import call

OPENAI: TypeAdapter[Any] = TypeAdapter(list[ContextManagement])
CHAT, RESPONSES = "chat/completions", "responses"
SPOKEN = b'{ "model":"m", "input": "Hello","n" : 1.0 }'
USED = orjson.dumps(
    {
        "model": "m",
        "messages": [
            {"role": "user", "content": "Look."},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "t1", "content": "found"},
        ],
    }
)


def to(provider: str, kind: Any = "openai", **fields: Any) -> Route:
    upstream = Upstream(name=provider, kind=kind, base_url="http://p", provider=provider, **fields)
    return Route(name=f"{provider}/m", upstream=upstream)


CLAUDE = to("anthropic", "anthropic")


def request_compaction(
    endpoint: str, body: bytes, route: Route, **more: int
) -> NativeCompactionCall | str:
    return request_native_compaction(
        endpoint, body, route, **{"trigger": 40_000, "keep": 3, **more}
    )


def test_openai_is_asked_to_compact_and_everything_else_stays() -> None:
    compaction = request_compaction(RESPONSES, SPOKEN, to("openai"))

    assert isinstance(compaction, NativeCompactionCall)
    assert compaction.body.startswith(SPOKEN[:-2])
    edits = orjson.loads(compaction.body)["context_management"]
    assert edits == [{"type": "compaction", "compact_threshold": 40_000}]
    OPENAI.validate_python(edits)
    assert "40000" in compaction.note


def test_openai_is_asked_for_no_less_than_it_takes() -> None:
    compaction = request_compaction(RESPONSES, SPOKEN, to("openai"), trigger=5)

    assert isinstance(compaction, NativeCompactionCall)
    assert orjson.loads(compaction.body)["context_management"][0]["compact_threshold"] == 1_000


def test_anthropic_is_asked_to_clear_half_of_the_prompt_or_nothing() -> None:
    compaction = request_compaction(CHAT, USED, CLAUDE)

    assert isinstance(compaction, NativeCompactionCall)
    edits = orjson.loads(compaction.body)["context_management"]
    assert edits == {
        "edits": [
            {
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "input_tokens", "value": 40_000},
                "keep": {"type": "tool_uses", "value": 3},
                "clear_at_least": {"type": "input_tokens", "value": 20_000},
            }
        ]
    }
    anthropic_type("BetaContextManagementConfigParam").validate_python(edits, strict=True)


def test_the_wire_says_it_with_its_beta_beside_the_callers() -> None:
    compaction = request_compaction(CHAT, USED, CLAUDE)
    assert isinstance(compaction, NativeCompactionCall)
    prepared = AnthropicWire().request(
        call(compaction.body, headers={"anthropic-beta": "x"}), CLAUDE
    )

    sent = orjson.loads(prepared.body)
    assert sent["context_management"] == orjson.loads(compaction.body)["context_management"]
    assert prepared.headers["anthropic-beta"] == "x,context-management-2025-06-27"


@pytest.mark.parametrize(
    ("endpoint", "body", "route", "why"),
    [
        (CHAT, USED, to("openai"), "Responses calls alone"),
        (RESPONSES, SPOKEN, CLAUDE, "chat calls alone"),
        (CHAT, b'{"messages":[]}', CLAUDE, "no tool results"),
        (RESPONSES, SPOKEN, to("openai", serves_responses=False), "no compaction of its own"),
        (RESPONSES, SPOKEN, to("gpu1"), "gpu1 has no compaction of its own"),
        (CHAT, USED, to("other", "anthropic"), "no compaction of its own"),
        (RESPONSES, b'{"context_management":[]}', to("openai"), "by itself"),
        (RESPONSES, b"[]", to("openai"), "cannot be read"),
        (RESPONSES, b"{", to("openai"), "cannot be read"),
    ],
)
def test_a_call_without_native_compaction_says_why_not(
    endpoint: str, body: bytes, route: Route, why: str
) -> None:
    compaction = request_compaction(endpoint, body, route)

    assert isinstance(compaction, str)
    assert why in compaction


BLOCK = {"type": "compaction", "content": "short"}


@pytest.mark.parametrize(
    "body",
    [
        {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
        {"context_management": [{"type": "compaction", "compact_threshold": 5_000}]},
        {"compaction": {"type": "summarize"}},
        {"messages": [{"role": "assistant", "thinking_blocks": [BLOCK]}]},
        {"messages": [{"role": "assistant", "content": [BLOCK, {"type": "text", "text": "a"}]}]},
        {"input": [{"role": "user", "content": "a"}, {"type": "compaction", "id": "c"}]},
        {"input": [{"type": "compaction_trigger"}]},
    ],
)
def test_a_call_that_compacts_at_its_provider_is_known(body: Any) -> None:
    assert is_native(orjson.dumps(body))
    assert is_native(orjson.dumps(body, option=orjson.OPT_INDENT_2))


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": "say compaction"}]},
        {"messages": [{"role": "user", "content": "compaction"}]},
        {"messages": [{"role": "user", "content": '{"type":"compaction"}'}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "compaction"}]}]},
        {"messages": [{"role": "tool", "content": [["compaction"]]}]},
        {"messages": ["compaction"], "input": "compaction"},
        {"messages": [{"type": ["compaction"]}, {"role": "x"}]},
        {"context_management": None, "compaction": None},
        {"metadata": {"compaction": "compaction"}},
    ],
)
def test_a_call_that_only_speaks_of_it_is_none(body: Any) -> None:
    assert not is_native(orjson.dumps(body))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'"compaction"',
        b'{"messages":["compaction"',
        b'\xff{"compaction":1}',
        b'{"messages":' + b"[" * 100_000 + b'"compaction"' + b"]" * 100_000 + b"}",
    ],
)
def test_an_unreadable_context_management_is_none(body: bytes) -> None:
    assert not is_native(body)


@given(st.sampled_from([CHAT, RESPONSES, "embeddings"]), st.binary(max_size=60))
def test_any_body_is_translated_or_refused_as_the_callers_mistake(
    endpoint: str, body: bytes
) -> None:
    for route in (CLAUDE, to("openai")):
        assert isinstance(
            request_native_compaction(endpoint, body, route, trigger=1, keep=0),
            NativeCompactionCall | str,
        )


@given(st.integers(-5, 10**9), st.integers(-5, 100))
def test_the_same_wish_is_the_same_bytes(trigger: int, keep: int) -> None:
    once = request_native_compaction(CHAT, USED, CLAUDE, trigger=trigger, keep=keep)

    assert isinstance(once, NativeCompactionCall)
    assert once == request_native_compaction(CHAT, USED, CLAUDE, trigger=trigger, keep=keep)
    assert is_native(once.body)
