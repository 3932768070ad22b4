"""Tests of what Anthropic clears of a conversation before its model reads it."""

from typing import Any

import orjson
import pytest

from proxy.catalog.entries import Route, Upstream
from proxy.errors import UpstreamError
from proxy.providers.anthropic.adapter import AnthropicWire
from proxy.providers.native_compaction import NativeCompactionCall, request_native_compaction
from proxy.tools.simulator.apis.clearing import (
    COMPACTING,
    EDITING,
    ON_DEMAND,
    check_edits,
    clear_tool_results,
)
from tests.fakes.anthropic_types import anthropic_type
from tests.fakes.call_dependencies import call
from tests.proxy.tools.simulator.scene import CLAUDE_TOOL, TOOL, SimulatorHarness, events, user

CLEAR: dict[str, Any] = {"type": "clear_tool_uses_20250919"}
THINKING = {"type": "clear_thinking_20251015", "keep": "all"}
COMPACT = {"type": "compact_20260112"}
LONG = "The parcel is on its way. " * 40


def talk(results: int) -> list[dict[str, Any]]:
    messages = [user("Look.")]
    for number in range(results):
        use = {"type": "tool_use", "id": f"t{number}", "name": "read_file", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": LONG}
        messages += [
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result, {"type": "text", "text": "Go on."}]},
        ]
    return messages


def body(*edits: dict[str, Any], results: int = 4, **fields: Any) -> dict[str, Any]:
    document = {"messages": talk(results), "tools": [CLAUDE_TOOL], **fields}
    return document | {"context_management": {"edits": list(edits)}} if edits else document


def above(tokens: int, **more: Any) -> dict[str, Any]:
    return CLEAR | {"trigger": {"type": "input_tokens", "value": tokens}} | more


def estimate_tokens(document: Any) -> int:
    return len(orjson.dumps(document["messages"])) // 4


def results(document: Any) -> list[str]:
    blocks = [block for message in document["messages"] if isinstance(message["content"], list)
              for block in message["content"]]  # fmt: skip
    return [block["content"] for block in blocks if block["type"] == "tool_result"]


def test_the_oldest_results_are_cleared_and_the_latest_stay() -> None:
    document = body(THINKING, above(100, keep={"type": "tool_uses", "value": 1}))
    remaining, edits = clear_tool_results(document, estimate_tokens)

    assert results(remaining) == ["[cleared]"] * 3 + [LONG]
    gained = estimate_tokens(document) - estimate_tokens(remaining)
    assert edits == [CLEAR | {"cleared_tool_uses": 3, "cleared_input_tokens": gained}]
    assert results(document) == [LONG] * 4


@pytest.mark.parametrize(
    "document",
    [
        body(),
        body(COMPACT, THINKING),
        body(CLEAR),
        body(above(100_000)),
        body(above(100), results=3),
        body(above(100, clear_at_least={"type": "input_tokens", "value": 5_000})),
        body(CLEAR | {"trigger": {"type": "tool_uses", "value": 4}}),
    ],
)
def test_tool_results_under_the_trigger_are_not_cleared(document: Any) -> None:
    assert clear_tool_results(document, estimate_tokens) == (document, [])


def test_uses_may_be_counted_in_place_of_tokens() -> None:
    _, edits = clear_tool_results(
        body(CLEAR | {"trigger": {"type": "tool_uses", "value": 3}}), estimate_tokens
    )

    assert [edit["cleared_tool_uses"] for edit in edits] == [1]


@pytest.mark.parametrize(
    ("document", "betas"),
    [
        ({}, ""),
        ({"context_management": None, "compaction": None}, ""),
        ({"context_management": {}}, EDITING),
        ({"context_management": {}}, COMPACTING),
        (body(THINKING, CLEAR), f"other, {EDITING}"),
        (body(COMPACT), COMPACTING),
        ({"compaction": {"type": "summarize"}}, ON_DEMAND),
    ],
)
def test_edits_pass_under_their_beta(document: Any, betas: str) -> None:
    check_edits(document, betas)


@pytest.mark.parametrize(
    ("document", "betas", "why"),
    [
        (body(CLEAR), "", "Extra inputs"),
        (body(CLEAR), COMPACTING, "Extra inputs"),
        (body(COMPACT), EDITING, "Extra inputs"),
        ({"compaction": {"type": "summarize"}}, COMPACTING, "Extra inputs"),
        (body({"type": "forget"}), EDITING, "unknown"),
        (body(CLEAR, THINKING), EDITING, "must come first"),
    ],
)
def test_edits_without_their_beta_or_out_of_order_are_refused(
    document: Any, betas: str, why: str
) -> None:
    with pytest.raises(UpstreamError, match=why):
        check_edits(document, betas)


def test_edits_of_the_wrong_shape_are_refused(scene: SimulatorHarness) -> None:
    assert scene.anthropic({"messages": talk(0), "context_management": 5}).status_code == 400


def _chat(results: int) -> bytes:
    messages: list[dict[str, Any]] = [user("Look.")]
    for number in range(results):
        function = {"name": "read_file", "arguments": "{}"}
        called = {"id": f"t{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [called]},
            {"role": "tool", "tool_call_id": f"t{number}", "content": LONG},
        ]
    return orjson.dumps({"model": "m", "messages": messages, "tools": [TOOL]})


@pytest.mark.parametrize("streamed", [False, True])
def test_requested_clearing_is_done_and_reported(
    scene: SimulatorHarness, *, streamed: bool
) -> None:
    upstream = Upstream(name="a", kind="anthropic", base_url="", provider="anthropic")
    claude = Route(name="a/m", upstream=upstream, model="claude-haiku-4-5")
    came = orjson.loads(_chat(8)) | {"stream": streamed, "stream_options": {"include_usage": True}}
    compacting = request_native_compaction(
        "chat/completions", orjson.dumps(came), claude, trigger=800, keep=2
    )
    assert isinstance(compacting, NativeCompactionCall)

    spent = []
    for sent_body in (orjson.dumps(came), compacting.body):
        prepared = AnthropicWire().request(call(sent_body), claude)
        headers = {"x-api-key": "sk", **prepared.headers}
        answer = scene.send("POST", "messages", prepared.body, headers=headers)
        assert answer.status_code == 200, answer.text
        assert prepared.reader is not None
        read = prepared.reader.feed(answer.content) + prepared.reader.end()
        edited = b'"cleared_tool_uses":6' in read
        spent.append((edited, _prompt(read, streamed=streamed)))

    assert [edited for edited, _ in spent] == [False, True]
    assert spent[1][1] < spent[0][1] / 2


def _prompt(read: bytes, *, streamed: bool) -> int:
    last = read.split(b"data: ")[-2] if streamed else read
    return int(orjson.loads(last)["usage"]["prompt_tokens"])


def test_the_official_client_reads_what_was_cleared(scene: SimulatorHarness) -> None:
    document = body(above(300, keep={"type": "tool_uses", "value": 1})) | {
        "model": "claude-haiku-4-5",
        "max_tokens": 100,
    }
    headers = {"x-api-key": "sk", "anthropic-version": "2023-06-01", "anthropic-beta": EDITING}
    whole = scene.send("POST", "messages", document, headers=headers)
    stream = scene.send("POST", "messages", document | {"stream": True}, headers=headers)

    management = anthropic_type("BetaMessage").validate_json(whole.content).context_management
    assert management is not None
    assert [edit.type for edit in management.applied_edits] == [CLEAR["type"]]
    read = [
        anthropic_type("BetaRawMessageStreamEvent").validate_python(event)
        for name, event in events(stream)
        if name != "ping"
    ]
    deltas = [event for event in read if event.type == "message_delta"]
    assert deltas[-1].context_management == management
