"""Chat messages as a system prompt and alternating turns."""

from typing import Any, Literal

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.anthropic.answer import WholeAnswer
from proxy.providers.anthropic.turns import Turn, close_turns, pair_tool_calls, system, turns
from proxy.providers.chat.chat_answer import ChatReply
from proxy.providers.chat.chat_body import ChatMessage, read
from tests.fakes.refusals import refusing

_MID = frozenset({"mid_system"})


def _messages(*messages: dict[str, Any]) -> list[ChatMessage]:
    return read(orjson.dumps({"messages": messages}))[0].messages


def _said(role: str, content: object = "…", **more: object) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def _turns(
    *messages: dict[str, Any],
    traits: frozenset[str] = frozenset(),
    notes: list[str] | None = None,
) -> list[Any]:
    read_messages = _messages(*messages)
    _, start = system(read_messages)
    conversation = turns(read_messages, start, traits, [] if notes is None else notes)
    sent = [{"role": turn.role, "content": turn.content} for turn in conversation]
    return list(orjson.loads(msgspec.json.encode(sent)))


def _words(turns_found: list[Any]) -> list[tuple[str, list[str]]]:
    return [
        (turn["role"], [block.get("text", block["type"]) for block in turn["content"]])
        for turn in turns_found
    ]


def _call(name: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}


def test_leading_system_and_developer_messages_keep_their_boundaries() -> None:
    parts = [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]
    blocks, start = system(
        _messages(_said("system", "a"), _said("developer", parts), _said("user"))
    )

    assert [block["text"] for block in blocks] == ["a", "b", "c"]
    assert start == 2


def test_a_conversation_may_consist_of_system_messages() -> None:
    blocks, start = system(_messages(_said("system", "a")))

    assert (len(blocks), start) == (1, 1)


def test_consecutive_messages_of_one_role_become_one_turn() -> None:
    conversation = _turns(
        _said("user", "a"), _said("user", "b"), _said("assistant", "c"), _said("assistant", "d")
    )

    assert _words(conversation) == [("user", ["a", "b"]), ("assistant", ["c", "d"])]


def test_results_come_before_words_whatever_their_order() -> None:
    conversation = _turns(
        _said("user", "go"),
        _said("assistant", None, tool_calls=[_call("a"), _call("b")]),
        _said("tool", "1", tool_call_id="a"),
        _said("user", "hurry"),
        _said("tool", "2", tool_call_id="b"),
    )

    assert _words(conversation[-1:]) == [("user", ["tool_result", "tool_result", "hurry"])]
    assert [block.get("tool_use_id") for block in conversation[-1]["content"]] == ["a", "b", None]


def test_an_empty_user_message_stays_a_message_and_an_empty_assistants_goes() -> None:
    conversation = _turns(_said("user", ""), _said("assistant", ""), _said("user", "a"))

    assert _words(conversation) == [("user", ["(empty message)", "a"])]


@pytest.mark.parametrize("messages", [[], [_said("assistant", "hello")]])
def test_a_conversation_begins_with_the_user(messages: list[dict[str, Any]]) -> None:
    notes: list[str] = []
    conversation = _turns(_said("system", "s"), *messages, notes=notes)

    assert conversation[0]["role"] == "user"
    assert len(notes) == 1


def test_an_assistant_says_its_thinking_first_byte_for_byte() -> None:
    thought = {"signature": "s=", "type": "thinking", "thinking": "hm  "}
    hidden = {"type": "redacted_thinking", "data": "x"}
    spoken = _said(
        "assistant", "so", thinking_blocks=[thought, hidden], tool_calls=[_call("a")], refusal="no"
    )
    messages = _messages(_said("user"), spoken)
    conversation = turns(messages, 0, frozenset(), [])
    written = [msgspec.json.encode(block) for block in conversation[1].content]

    assert written[:2] == [orjson.dumps(thought), orjson.dumps(hidden)]
    assert [orjson.loads(block)["type"] for block in written[2:]] == ["text", "text", "tool_use"]
    assert len(conversation[1].blocks) == 3


_THOUGHTS = [{"type": "thinking", "thinking": words, "signature": "s"} for words in "abc"]


def _again(*content: dict[str, Any], **changed: object) -> list[Any]:
    """The assistant's content when an answer of this content comes back, perhaps changed."""
    body = orjson.dumps({"content": content})
    answer = orjson.loads(WholeAnswer(ChatReply("m", 0)).feed(body))
    message = answer["choices"][0]["message"] | changed
    conversation = _turns(_said("user"), message)
    return list(conversation[1]["content"]) if len(conversation) > 1 else []


def _use(name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "f", "input": {}}


def test_an_answer_comes_back_in_the_order_it_had() -> None:
    a, b, c = _THOUGHTS
    content = [a, {"type": "text", "text": "so"}, b, _use("t1"), c, _use("t2")]

    assert _again(*content) == content


_PIECES: list[dict[str, Any]] = [
    *_THOUGHTS,
    {"type": "redacted_thinking", "data": "x"},
    {"type": "compaction", "content": "so far"},
    {"type": "text", "text": "so "},
    {"type": "text", "text": "\n"},
    {"type": "tool_use"},
]


def test_blocks_joined_from_a_stream_are_sent_without_their_numbers() -> None:
    a, b, _ = _THOUGHTS
    events = [block | {"index": number} for number, block in enumerate([a, b])]

    assert _again({"type": "text", "text": "so"}, thinking_blocks=events)[:2] == [a, b]


@given(st.lists(st.sampled_from(_PIECES), max_size=8))
def test_no_opaque_block_changes_its_place_among_what_says_something(pieces: list[Any]) -> None:
    numbered = enumerate(pieces)
    sent = [_use(f"t{n}") if one["type"] == "tool_use" else one for n, one in numbered]
    content = _again(*sent)
    kinds = [block["type"] for block in sent if block.get("text") != "\n"]

    assert [one for one in content if one["type"] != "text"].count(_PIECES[0]) == sent.count(
        _PIECES[0]
    )
    if kinds and kinds[-1] in {"text", "tool_use"} and {*kinds} - {"text", "tool_use"}:
        assert _blocks(content) == _blocks(sent)


def _blocks(content: list[Any]) -> list[Any]:
    """The content in order, all words between two blocks as one and without blank ends."""
    joined: list[Any] = []
    for block in content:
        if block["type"] != "text":
            joined.append(block)
        elif joined and isinstance(joined[-1], str):
            joined[-1] += block["text"]
        else:
            joined.append(block["text"])
    return [block for block in joined if not isinstance(block, str) or block.strip()]


@pytest.mark.parametrize("changed", [{"content": "sO"}, {"content": None}, {"tool_calls": []}])
def test_an_answer_that_was_changed_comes_back_with_its_thinking_first(
    changed: dict[str, Any],
) -> None:
    a, b, _ = _THOUGHTS
    content = _again(a, {"type": "text", "text": "so"}, _use("t1"), b, _use("t2"), **changed)

    assert content[:2] == [a, b]


def test_no_message_ends_with_thinking_that_has_anything_to_stand_before() -> None:
    a, b, _ = _THOUGHTS
    words = {"type": "text", "text": "so"}

    assert _again(a, words, b) == [a, b, words]
    assert _again(a, words, b, {"type": "text", "text": "\n"})[:2] == [a, b]
    assert _again(a, b) == [a, b]


def test_a_marker_of_the_message_goes_to_what_is_last_in_its_own_order() -> None:
    a, b, _ = _THOUGHTS
    mark = {"type": "ephemeral"}
    words = {"type": "text", "text": "so"}

    assert _again(a, _use("t1"), b, words, cache_control=mark)[-1] == words | {
        "cache_control": mark
    }


@pytest.mark.parametrize("block", ["hm", {"type": "text", "text": "x"}, {}, None])
def test_a_block_that_is_no_thinking_is_not_sent_as_thinking(block: object) -> None:
    with refusing(400) as caught:
        _turns(_said("user"), _said("assistant", "a", thinking_blocks=[block]))

    assert caught.value.param == "messages[1].thinking_blocks"


@pytest.mark.parametrize(
    "message",
    [
        _said("assistant", "a", audio={"id": "x"}),
        _said("function", "a", name="f"),
        _said("critic", "a"),
    ],
)
def test_a_message_without_a_counterpart_is_refused(message: dict[str, Any]) -> None:
    with refusing(400) as caught:
        _turns(_said("user"), message)

    assert (caught.value.param or "").startswith("messages[1].")


@pytest.mark.parametrize(
    ("later", "stands"),
    [
        ([], True),
        ([_said("developer", "t")], True),
        ([_said("assistant", "b")], True),
        ([_said("system", "t"), _said("assistant", "b")], True),
        ([_said("user", "b")], False),
    ],
)
def test_a_later_system_message_stands_where_the_model_takes_one(
    later: list[dict[str, Any]], *, stands: bool
) -> None:
    conversation = _turns(_said("user", "a"), _said("system", "s"), *later, traits=_MID)

    assert (conversation[1:2] != [] and conversation[1]["role"] == "system") == stands
    assert ("<system_message>\ns\n</system_message>" in _words(conversation)[0][1]) != stands


def test_a_system_message_after_the_assistant_becomes_labelled_user_text() -> None:
    notes: list[str] = []
    conversation = _turns(
        _said("user", "a"),
        _said("assistant", "b"),
        _said("system", "s"),
        traits=_MID,
        notes=notes,
    )

    assert _words(conversation)[2] == ("user", ["<system_message>\ns\n</system_message>"])
    assert notes == ["sent a later system message as labelled user text"]


def test_a_system_message_that_says_nothing_leaves_no_turn() -> None:
    assert len(_turns(_said("user", "a"), _said("system", " "), traits=_MID)) == 1


def test_a_messages_marker_goes_to_its_last_block() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    user, assistant, answered = _turns(
        _said("user", "a", **mark),
        _said("assistant", "b", tool_calls=[_call("a")], **mark),
        _said("tool", "1", tool_call_id="a", **mark),
    )

    assert "cache_control" in user["content"][-1]
    assert ["cache_control" in block for block in assistant["content"]] == [False, True]
    assert "cache_control" in answered["content"][0]


def _close(turn: Turn, *, prefill: bool) -> tuple[list[Turn], list[str]]:
    notes: list[str] = []
    return close_turns([Turn("user"), turn], notes, prefill=prefill), notes


@pytest.mark.parametrize(("role", "words"), [("assistant", "a"), ("system", "a ")])
def test_a_model_goes_on_from_its_own_words_without_trailing_space_and_from_a_system_turn(
    role: Literal["assistant", "system"], words: str
) -> None:
    conversation, notes = _close(Turn(role, [{"type": "text", "text": "a "}]), prefill=True)

    assert conversation[-1].content == [{"type": "text", "text": words}]
    assert notes == []


@pytest.mark.parametrize(
    ("block", "prefill"),
    [
        ({"type": "text", "text": "a"}, False),
        (msgspec.Raw(b'{"type":"thinking"}'), True),
        ({"type": "tool_use"}, True),
    ],
)
def test_a_conversation_that_claude_cannot_go_on_from_gets_a_user_turn(
    block: Any, *, prefill: bool
) -> None:
    conversation, notes = _close(Turn("assistant", [block]), prefill=prefill)

    assert conversation[-1].role == "user"
    assert len(notes) == 1


_COMPACTION = {"type": "compaction", "content": "so far", "signature": "c2ln"}


def test_a_compaction_comes_first_in_the_place_of_what_it_stands_for() -> None:
    notes: list[str] = []
    block = _said("assistant", None, thinking_blocks=[_COMPACTION])
    conversation = _turns(block, _said("assistant", "a reply"), _said("user", "on"), notes=notes)

    assert [turn["role"] for turn in conversation] == ["assistant", "user"]
    assert conversation[0]["content"] == [_COMPACTION, {"type": "text", "text": "a reply"}]
    assert notes == []


def test_after_a_compaction_that_paused_the_model_goes_on_by_itself() -> None:
    paused = _messages(_said("user"), _said("assistant", "", thinking_blocks=[_COMPACTION]))
    conversation = turns(paused, 0, frozenset(), [])
    notes: list[str] = []

    assert close_turns(conversation, notes, prefill=False) is conversation
    assert notes == []


def _calls(*names: str) -> Turn:
    return Turn("assistant", [{"type": "tool_use", "id": name} for name in names])


def _results(*names: str) -> Turn:
    return Turn("user", [{"type": "tool_result", "tool_use_id": name} for name in names])


def _ids(turns: list[Turn]) -> list[list[str | None]]:
    return [[block.get("id", block.get("tool_use_id")) for block in turn.blocks] for turn in turns]


def test_calls_answered_in_any_order_are_left_alone() -> None:
    assert _ids(pair_tool_calls([_calls("a", "b"), _results("b", "a")])) == [["a", "b"], ["b", "a"]]


def test_an_id_used_again_later_is_made_different_on_both_sides() -> None:
    turns = [_calls("a"), _results("a"), _calls("a", "b"), _results("a", "b")]

    assert _ids(pair_tool_calls(turns)) == [["a"], ["a"], ["a_2", "b"], ["a_2", "b"]]


@pytest.mark.parametrize(
    ("turns", "words"),
    [
        ([_calls("a")], "No answer to tool call 'a'"),
        ([_calls("a"), Turn("user", [{"type": "text", "text": "x"}])], "No answer"),
        ([_calls("a", "b"), _results("a")], "No answer to tool call 'b'"),
        ([_results("a")], "'a' answers no call"),
        ([_calls("a"), _results("a", "a")], "'a' answers no call"),
        ([_calls("a", "a"), _results("a", "a")], "share an id"),
    ],
)
def test_tool_results_without_their_calls_are_refused(turns: list[Turn], words: str) -> None:
    with refusing(400, match=words):
        pair_tool_calls(turns)
