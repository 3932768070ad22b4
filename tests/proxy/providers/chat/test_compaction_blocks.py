"""Anthropic's own compaction as chat bodies carry it."""

from typing import Any

import orjson
import pytest
from msgspec import Raw

from proxy.providers.chat.chat_body import ChatBody, read
from proxy.providers.chat.compaction_blocks import (
    applied_edits,
    betas,
    compaction_fields,
    is_compaction,
    merge_betas,
)
from tests.fakes.refusals import refusing

EDITING, THRESHOLD, ON_DEMAND = (
    "context-management-2025-06-27",
    "compact-2026-01-12",
    "compact-2026-09-04",
)
CLEAR = {"type": "clear_tool_uses_20250919"}
COMPACT = {"type": "compact_20260112"}
BLOCK = {"type": "compaction", "content": "what was said"}
SIGNED = BLOCK | {"signature": "c2ln"}


def chat_body(*blocks: dict[str, Any], **fields: Any) -> ChatBody:
    message = {"role": "assistant", "content": None, "thinking_blocks": list(blocks) or None}
    return read(orjson.dumps({"messages": [message], **fields}))[0]


@pytest.mark.parametrize(
    ("edits", "needed"),
    [
        ([CLEAR], (EDITING,)),
        ([{"type": "clear_thinking_20251015", "keep": "all"}, CLEAR], (EDITING,)),
        ([COMPACT], (THRESHOLD,)),
        ([CLEAR, COMPACT], (EDITING, THRESHOLD)),
        ([], (EDITING,)),
    ],
)
def test_each_context_edit_needs_its_beta_feature(edits: Any, needed: tuple[str, ...]) -> None:
    assert betas(chat_body(context_management={"edits": edits})) == needed


@pytest.mark.parametrize(
    ("body", "needed"),
    [
        (chat_body(), ()),
        (chat_body({"type": "thinking", "thinking": "compaction", "signature": "s"}), ()),
        (chat_body(BLOCK, BLOCK), (THRESHOLD,)),
        (chat_body(SIGNED), (ON_DEMAND,)),
        (chat_body(SIGNED, compaction={"type": "summarize"}), (ON_DEMAND,)),
        (chat_body(compaction={"type": "summarize"}), (ON_DEMAND,)),
        (chat_body(SIGNED, context_management={"edits": [COMPACT]}), (THRESHOLD,)),
        (chat_body(SIGNED, context_management={"edits": [CLEAR]}), (EDITING, ON_DEMAND)),
    ],
)
def test_a_block_needs_the_beta_of_what_wrote_it(body: ChatBody, needed: tuple[str, ...]) -> None:
    assert betas(body) == needed


def test_a_request_for_compaction_is_passed_on_unmodified() -> None:
    edits = chat_body(context_management={"edits": [CLEAR], "later": 1})

    assert compaction_fields(chat_body()) == {}
    assert compaction_fields(edits) == {"context_management": edits.context_management}
    demand = chat_body(compaction={"type": "summarize"})
    assert compaction_fields(demand) == {"compaction": demand.compaction}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"context_management": [{"type": "compaction"}]}, "context_management"),
        ({"context_management": {"edits": [{}]}}, "context_management"),
        ({"context_management": {"edits": ["x"]}}, "context_management"),
        ({"compaction": "summarize"}, "compaction"),
        ({"compaction": {"type": "summarize"}, "context_management": {}}, "compaction"),
    ],
)
def test_a_compaction_field_that_anthropic_would_not_take_names_its_place(
    fields: Any, param: str
) -> None:
    with refusing(400) as caught:
        compaction_fields(chat_body(**fields))

    assert caught.value.param == param


@pytest.mark.parametrize(
    ("block", "is_one"),
    [
        (Raw(orjson.dumps(BLOCK)), True),
        (Raw(b'{"type": "compaction"}'), True),
        (Raw(b'{"type":"thinking","thinking":"compaction"}'), False),
        (Raw(b'{"type":["compaction"]}'), False),
        (Raw(b'"compaction"'), False),
        ({"type": "compaction"}, False),
    ],
)
def test_a_compaction_is_known_by_its_type(block: object, *, is_one: bool) -> None:
    assert is_compaction(block) is is_one


def test_betas_join_those_of_operator_and_caller() -> None:
    always = {"Anthropic-Beta": "a, b"}

    assert merge_betas(always, {"anthropic-beta": "b,c"}, ["c", "d"]) == "a,b,c,d"
    assert merge_betas({}, {}, [EDITING]) == EDITING


@pytest.mark.parametrize("management", [None, {}, {"applied_edits": []}, {"applied_edits": 5}, "x"])
def test_an_answer_that_edited_nothing_tells_nothing(management: object) -> None:
    assert applied_edits(management) is None


def test_an_answer_tells_its_edits() -> None:
    management = {"applied_edits": [CLEAR | {"cleared_tool_uses": 2, "cleared_input_tokens": 9}]}

    assert applied_edits(management) == management
