"""Messages → chat → Messages: nothing is lost that chat can say, and what it cannot is named."""

from copy import deepcopy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.catalog.entries import Route, Upstream
from proxy.providers.anthropic.answer import WholeAnswer
from proxy.providers.anthropic.request import messages_body
from proxy.providers.anthropic.stream import AnswerStream
from proxy.providers.chat.block_order import OPAQUE
from proxy.providers.chat.chat_answer import ChatReply
from proxy.providers.messages.names import chat_call_id
from proxy.providers.messages.reader import messages_reader
from proxy.providers.messages.request import chat_request
from proxy.providers.messages.target import ChatTarget
from proxy.providers.readers import PassthroughReader
from proxy.providers.sse import parse_events
from tests.examples import examples
from tests.fakes.messages_calls import CLAUDE, Json, settings
from tests.proxy.providers.anthropic.messages_streams import stream

_TRAITS = {"sampling", "forced_tools", "adaptive_thinking", "structured", "prefill", "mid_system"}
_ROUTE = Route(
    name="a/claude",
    upstream=Upstream(name="a", kind="anthropic", base_url="https://a.test/v1"),
    traits=frozenset(_TRAITS),
)
_SOURCE = {"type": "base64", "media_type": "image/png", "data": "aGk="}
_MARK = {"type": "ephemeral", "ttl": "1h"}

words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip)
texts = st.builds(lambda word: {"type": "text", "text": word}, words)
images = st.sampled_from(
    [
        {"type": "image", "source": _SOURCE},
        {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
    ]
)
documents = st.sampled_from(
    [
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf",
                                        "data": "aGk="}, "title": "a.pdf"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Hé"}},
        {"type": "document", "source": {"type": "url", "url": "https://x.test/a.pdf"}},
    ]
)  # fmt: skip
contents = (texts | images | documents).map(deepcopy)
thoughts = st.builds(
    lambda thought: {"type": "thinking", "thinking": thought, "signature": "c2ln"}, st.text()
) | st.just({"type": "redacted_thinking", "data": "eHl6"})
values = st.integers(-9, 9) | st.text(max_size=5)
inputs = st.dictionaries(st.text(max_size=5), values, max_size=3)


@st.composite
def turns(draw: st.DrawFn) -> list[Json]:
    """Alternating turns, each call answered in the next."""
    turns_drawn: list[Json] = [
        {"role": "user", "content": draw(st.lists(contents, min_size=1, max_size=3))}
    ]
    for number in range(draw(st.integers(0, 3))):
        names = [f"toolu_{number}_{n}" for n in range(draw(st.integers(0, 2)))]
        calls = [
            {"type": "tool_use", "id": name, "name": "weather", "input": draw(inputs)}
            for name in names
        ]
        before = draw(st.lists(texts | thoughts, max_size=3))
        last = calls or [draw(texts)]
        turns_drawn.append({"role": "assistant", "content": [*before, *last]})
        results = [
            {"type": "tool_result", "tool_use_id": name,
             "content": draw(st.lists(texts | images, min_size=1, max_size=2)),
             **({"is_error": True} if draw(st.booleans()) else {})}
            for name in names
        ]  # fmt: skip
        more = draw(st.lists(contents, min_size=0 if results else 1, max_size=2))
        turns_drawn.append({"role": "user", "content": [*results, *more]})
    return turns_drawn


@st.composite
def bodies(draw: st.DrawFn) -> Json:
    """Calls that Anthropic takes."""
    tool = {"name": "weather", "description": "d", "input_schema": {"type": "object"}}
    choices = ({"type": "any"}, {"type": "tool", "name": "weather"}, {"type": "none"},
               {"type": "auto", "disable_parallel_tool_use": True})  # fmt: skip
    body: Json = {"model": "m", "max_tokens": draw(st.integers(1, 4000)), "messages": draw(turns())}
    options: dict[str, st.SearchStrategy[Any]] = {
        "system": st.lists(texts, min_size=1, max_size=3),
        "tools": st.just([tool]) | st.just([tool | {"cache_control": _MARK}]),
        "stop_sequences": st.just(["END"]),
        "service_tier": st.just("standard_only"),
        "metadata": st.just({"user_id": '{"device_id":"d","session_id":"s"}'}),
        "cache_control": st.just({"type": "ephemeral"}),
        "stream": st.sampled_from([True]),
        "output_config": st.just({"effort": "low"}),
        "thinking": st.just({"type": "adaptive", "display": "summarized"}),
    }
    for name, values in options.items():
        if draw(st.booleans()):
            body[name] = draw(values)
    if "output_config" in body:  # in chat an effort alone asks Claude to think
        body.setdefault("thinking", {"type": "adaptive"})
    if "tools" in body and "thinking" not in body and draw(st.booleans()):
        body["tool_choice"] = draw(st.sampled_from(choices))
    if "thinking" not in body and draw(st.booleans()):
        body["temperature"], body["top_k"] = 0.5, 3
    for block in body.get("system", [])[-1:] + body["messages"][-1]["content"][-1:]:
        if draw(st.booleans()):
            block["cache_control"] = _MARK
    return body


@pytest.mark.slow
@given(bodies())
@examples(60)
def test_a_call_to_claude_by_chat_and_back_is_the_same_call(body: Json) -> None:
    chat = chat_request(orjson.dumps(body), CLAUDE)
    back = messages_body(chat.body, _ROUTE)

    assert (*chat.notes, *back.notes) == ()
    assert orjson.loads(back.body) == body


def _normal(body: Json) -> list[tuple[str, Any]]:
    """All that a model of another provider is to be told, in order: words, images, calls, results.

    Results precede what else stands in their turn, and their images precede its other words.
    """
    events: list[tuple[str, Any]] = [("text", one["text"]) for one in body.get("system", [])]
    for message in body["messages"]:
        shown: list[tuple[str, Any]] = []
        for block in message["content"]:
            if block["type"] == "tool_result":
                inner = block["content"]
                events.append(("result", block["tool_use_id"]))
                events += [("text", one["text"]) for one in inner if one["type"] == "text"]
                shown += [("image", "") for one in inner if one["type"] == "image"]
        events += shown
        kinds = {"image": "image", "tool_use": "call"}
        for block in message["content"]:
            if block["type"] in {"text", "document"}:
                source = block.get("source", {})
                events.append(("text", block.get("text") or source.get("data")))
            elif block["type"] in kinds:
                events.append((kinds[block["type"]], block.get("id", "")))
    return events


def _parts_of_chat(chat: Json) -> list[tuple[str, Any]]:
    """The same, as it stands in a chat body."""
    events: list[tuple[str, Any]] = []
    for message in chat["messages"]:
        if message["role"] == "tool":
            events.append(("result", message["tool_call_id"]))
        content = message["content"]
        parts: list[Json] = content or []
        if isinstance(content, str):
            parts = [{"type": "text", "text": content}]
        for part in parts:
            if part["type"] == "text":
                events.append(("text", part["text"]))
            else:
                data = part.get("file", {}).get("file_data", "").partition(",")[2]
                events.append(("text", data) if data else ("image", ""))
        events += [("call", call["id"]) for call in message.get("tool_calls", [])]
    return events


def _lost(body: Json) -> set[str]:
    """Words of the notes that have to be there."""
    blocks = [block for message in body["messages"] for block in message["content"]]
    results = [block for block in blocks if block["type"] == "tool_result"]
    inner = [block_inside for block in results for block_inside in block["content"]]
    has: dict[str, Any] = {
        "thinking blocks": any("thinking" in block["type"] for block in blocks),
        "is_error": any(block.get("is_error") for block in results),
        "images of tool results": any(block_inside["type"] == "image" for block_inside in inner),
        "thinking as reasoning_effort": "thinking" in body and "output_config" not in body,
    }
    return {name for name, is_there in has.items() if is_there}


@pytest.mark.slow
@given(bodies())
@examples(60)
def test_a_call_to_another_model_says_all_that_chat_can_and_names_the_rest(body: Json) -> None:
    for message in body["messages"]:
        message["content"] = [
            block
            for block in message["content"]
            if block.get("source", {}).get("url") != "https://x.test/a.pdf"
        ] or [{"type": "text", "text": "?"}]
    request = chat_request(orjson.dumps(body), ChatTarget())
    said_to_model = _parts_of_chat(orjson.loads(request.body))

    pairs = [pair for pair in _normal(body) if pair[0] != "text"]
    assert [pair for pair in said_to_model if pair[0] != "text"] == pairs
    everything = "".join(text for kind, text in said_to_model if kind == "text")
    position = 0
    for kind, text in _normal(body):
        if kind == "text":
            position = everything.index(text, position)
    assert {name for name in _lost(body) if any(name in note for note in request.notes)} == _lost(
        body
    )
    assert len(request.notes) == len(_lost(body))


usages = st.fixed_dictionaries(
    {
        "input_tokens": st.integers(0, 99),
        "cache_creation_input_tokens": st.integers(0, 99),
        "cache_read_input_tokens": st.integers(0, 99),
        "output_tokens": st.integers(0, 99),
    }
)
answers = st.lists(
    texts
    | thoughts
    | st.builds(lambda given_input: {"type": "tool_use", "name": "weather", "input": given_input},
                inputs),
    max_size=5,
)  # fmt: skip
_STOPS = {"tool_use": "tool_use", "end_turn": "end_turn", "max_tokens": "max_tokens",
          "refusal": "refusal", "pause_turn": "end_turn", "stop_sequence": "end_turn"}  # fmt: skip


@st.composite
def messages(draw: st.DrawFn) -> Json:
    """Answers that Claude gives; words that follow words are one block.

    Words stand before calls where no block is opaque: a chat message says no other order then.
    """
    drawn = [
        {**block, "id": f"toolu_{n}"} if block["type"] == "tool_use" else block
        for n, block in enumerate(draw(answers))
    ]
    if not any(block["type"] in OPAQUE for block in drawn):
        drawn.sort(key=lambda block: block["type"] == "tool_use")
    content: list[Json] = []
    for block in drawn:
        if block["type"] != "text" or not content or content[-1]["type"] != "text":
            content.append(block)
    calls = any(block["type"] == "tool_use" for block in content)
    reason = "tool_use" if calls else draw(st.sampled_from([*_STOPS][1:]))
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "gpt-x", "content": content,
        "stop_reason": reason, "stop_sequence": None, "usage": draw(usages),
    }  # fmt: skip


def _expected_message(message: Json) -> Json:
    usage = dict(message["usage"])
    if written := usage["cache_creation_input_tokens"]:
        usage["cache_creation"] = {
            "ephemeral_5m_input_tokens": written,
            "ephemeral_1h_input_tokens": 0,
        }
    reason = _STOPS[message["stop_reason"]]
    return message | {"usage": usage, "stop_reason": reason}


@given(messages())
@examples(60)
def test_an_answer_of_claude_by_chat_and_back_is_the_same_answer(message: Json) -> None:
    inner = WholeAnswer(ChatReply("gpt-x", 1))
    reader = messages_reader(inner, settings(thinking="shown"), streamed=False)

    assert orjson.loads(reader.feed(orjson.dumps(message))) == _expected_message(message)


def _stream(message: Json) -> bytes:
    """The message as Anthropic streams it."""
    usage, opening = message["usage"], message | {"content": []}
    return stream(message["content"], message["stop_reason"], message=opening, usage=usage)


def _message_of_stream(run: bytes) -> Json:
    """The message that a stream tells."""
    message: Json = {}
    partial = ""
    for event in map(orjson.loads, (event.data for event in parse_events(run))):
        if event["type"] == "message_start":
            message = event["message"]
        elif event["type"] == "content_block_start":
            message["content"].append(event["content_block"])
            partial = ""
        elif event["type"] == "content_block_delta":
            block, delta = message["content"][event["index"]], event["delta"]
            partial += delta.get("partial_json", "")
            for name in delta.keys() & block.keys() - {"type"}:
                block[name] += delta[name]
        elif event["type"] == "content_block_stop" and partial:
            message["content"][event["index"]]["input"] = orjson.loads(partial)
        elif event["type"] == "message_delta":
            message |= event["delta"] | {"usage": event["usage"]}
    return message


@given(messages())
@examples(60)
def test_a_stream_of_claude_by_chat_and_back_tells_the_same_message(message: Json) -> None:
    inner = AnswerStream(ChatReply("gpt-x", 1, wants_usage=True))
    reader = messages_reader(inner, settings(thinking="shown"), streamed=True)

    assert _message_of_stream(reader.feed(_stream(message)) + reader.end()) == _expected_message(
        message
    )


@pytest.mark.parametrize("name", ["call_Ab1", "functions.Bash:0", "chatcmpl-tool-" + "0" * 32, "0"])
def test_a_call_of_any_upstream_comes_back_by_its_own_id(name: str) -> None:
    completion = {
        "id": "chatcmpl-7f",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"tool_calls": [
            {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}]}}],
    }  # fmt: skip

    reader = messages_reader(PassthroughReader(), settings(), streamed=False)
    answer = orjson.loads(reader.feed(orjson.dumps(completion)))

    assert chat_call_id(answer["content"][0]["id"], "any") == name
