"""Reading messages bodies."""

from typing import Any

import pytest

from proxy.tools.simulator.apis.messages_bodies import read_messages_request
from proxy.tools.simulator.replies import ReadingContext, signature
from tests.proxy.tools.simulator.scene import CLAUDE_TOOL, user

MARK = {"type": "ephemeral"}
USE = {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "text"}


def body(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    listed = list(messages) or [user("Hello")]
    return {"model": "claude-haiku-4-5", "max_tokens": 2000, "messages": listed} | fields


def test_a_prompt_is_tools_then_system_then_the_messages(older: ReadingContext) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": signature("hm")}
    picture = {"type": "image", "source": {"type": "url", "url": "http://a"}}
    document = {"type": "document", "source": {"type": "base64", "data": "x" * 400}}

    blocks = read_messages_request(
        body(
            user("x") | {"content": [picture, document, {"type": "text", "text": "Read."}]},
            {"role": "assistant", "content": [thought, USE]},
            {"role": "user", "content": [RESULT]},
            tools=[CLAUDE_TOOL],
            system="Be brief.",
        ),
        older,
    ).prompt.blocks

    assert [(block.role, block.kind) for block in blocks] == [
        ("tools", "text"),
        ("system", "text"),
        ("user", "image"),
        ("user", "document"),
        ("user", "text"),
        ("assistant", "thinking"),
        ("assistant", "tool_use"),
        ("user", "tool_result"),
        ("assistant", "text"),
    ]


def test_marks_stand_where_they_were_put(older: ReadingContext) -> None:
    request = read_messages_request(
        body(
            user("x") | {"content": [{"type": "text", "text": "a", "cache_control": MARK}]},
            tools=[CLAUDE_TOOL | {"cache_control": MARK | {"ttl": "1h"}}],
            system=[{"type": "text", "text": "s"}],
        ),
        older,
    )

    assert [block.mark for block in request.prompt.blocks] == ["1h", None, "5m", None]


def test_a_mark_is_no_part_of_a_tools_text(older: ReadingContext) -> None:
    marked = read_messages_request(
        body(tools=[CLAUDE_TOOL | {"cache_control": MARK}]), older
    ).prompt
    plain = read_messages_request(body(tools=[CLAUDE_TOOL]), older).prompt

    assert marked.blocks[0].tokens == plain.blocks[0].tokens


def test_automatic_caching_marks_the_last_block_that_can_be(newer: ReadingContext) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": signature("hm")}
    message = user("x") | {"content": [{"type": "text", "text": "a"}, thought]}

    blocks = read_messages_request(
        body(message, model="claude-sonnet-5-5", cache_control=MARK), newer
    ).prompt.blocks

    assert [block.mark for block in blocks] == ["5m", None, None]
    alone = read_messages_request(
        body(message | {"content": [thought]}, cache_control=MARK), newer
    ).prompt
    assert [block.mark for block in alone.blocks] == [None, None]


def test_automatic_caching_keeps_the_mark_that_is_there(newer: ReadingContext) -> None:
    message = user("x") | {"content": [{"type": "text", "text": "a", "cache_control": MARK}]}

    blocks = read_messages_request(body(message, cache_control=MARK), newer).prompt.blocks

    assert [block.mark for block in blocks] == ["5m", None]


@pytest.mark.parametrize(
    "change",
    [
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    ],
)
def test_tool_choice_and_thinking_lose_the_messages_and_nothing_before(
    older: ReadingContext, change: dict[str, Any]
) -> None:
    usual = read_messages_request(body(tools=[CLAUDE_TOOL], system="s"), older).prompt
    changed = read_messages_request(body(tools=[CLAUDE_TOOL], system="s", **change), older).prompt

    assert usual.blocks[:2] == changed.blocks[:2]
    assert usual.blocks[2].tokens != changed.blocks[2].tokens
    assert usual.tokens == changed.tokens
    assert usual.scope == changed.scope


def test_effort_and_format_part_caches(newer: ReadingContext) -> None:
    form = {"type": "json_schema", "schema": {"type": "object", "additionalProperties": False}}
    usual = read_messages_request(body(), newer)
    hard = read_messages_request(body(output_config={"effort": "high"}), newer)
    bound = read_messages_request(body(output_config={"format": form}), newer)

    assert len({usual.prompt.scope, hard.prompt.scope, bound.prompt.scope}) == 3
    assert bound.schema == form["schema"]
    assert usual.schema is None


def test_thinking_is_paid_for_as_asked(older: ReadingContext, newer: ReadingContext) -> None:
    budget = {"type": "enabled", "budget_tokens": 1024}
    adaptive = {"type": "adaptive"}

    assert read_messages_request(body(), older).reasoning == 0
    assert read_messages_request(body(thinking=budget), older).reasoning == 256
    assert read_messages_request(body(thinking=adaptive), newer).reasoning == 192
    assert (
        read_messages_request(
            body(thinking=adaptive, output_config={"effort": "max"}), newer
        ).reasoning
        == 2048
    )


def test_a_tool_choice_can_oblige(older: ReadingContext) -> None:
    tools = [CLAUDE_TOOL]

    assert read_messages_request(body(tools=tools, tool_choice={"type": "any"}), older).forced == [
        "read_file"
    ]
    named = {"type": "tool", "name": "read_file"}
    assert read_messages_request(body(tools=tools, tool_choice=named), older).forced == [
        "read_file"
    ]
    assert (
        read_messages_request(body(tools=tools, tool_choice={"type": "none"}), older).forced == []
    )


def test_a_tool_result_is_one_block_whatever_it_holds(older: ReadingContext) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image", "source": {"url": "b"}}]
    for result in (RESULT, RESULT | {"content": parts}, RESULT | {"content": None}):
        content = (
            user("a"),
            {"role": "assistant", "content": [USE]},
            {"role": "user", "content": [result]},
        )
        kinds = [block.kind for block in read_messages_request(body(*content), older).prompt.blocks]
        assert kinds == ["text", "tool_use", "tool_result", "text"]
