from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from proxy.tools.demo.conversation import (
    DemoConversation,
    Message,
    sections,
    seeded_random,
    table,
    text,
)

NOON = datetime(2026, 11, 3, 12, tzinfo=UTC)


class EchoScript:
    """A script whose body is what it was asked with."""

    team = "acme-support"
    feature = "echo"
    model = "gpt-5.5"
    length = 3

    def body(self, turn: int, time: datetime, answers: Sequence[Message | None]) -> dict[str, Any]:
        return {"turn": turn, "at": time, "answers": list(answers)}


def test_a_turn_sees_the_answers_before_it_and_no_others() -> None:
    conversation = DemoConversation("echo-0", EchoScript())
    conversation.record_answer(0, {"role": "assistant", "content": "one"})
    conversation.record_answer(1, {"role": "assistant", "content": "two"})
    assert conversation.body(1, NOON) == {
        "turn": 1,
        "at": NOON,
        "answers": [{"role": "assistant", "content": "one"}],
    }


def test_an_answer_that_never_came_is_none() -> None:
    conversation = DemoConversation("echo-0", EchoScript())
    conversation.record_answer(1, {"content": "two"})
    assert conversation.body(2, NOON)["answers"] == [
        None,
        {"role": "assistant", "content": "two"},
    ]


def test_an_empty_answer_counts_as_none() -> None:
    conversation = DemoConversation("echo-0", EchoScript())
    conversation.record_answer(0, {"role": "assistant", "content": "", "tool_calls": None})
    assert conversation.body(1, NOON)["answers"] == [None]


def test_tool_calls_are_kept_and_what_a_request_may_not_hold_is_left_out() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    conversation = DemoConversation("echo-0", EchoScript())
    conversation.record_answer(0, {"content": None, "refusal": None, "tool_calls": [call]})
    assert conversation.body(1, NOON)["answers"] == [{"role": "assistant", "tool_calls": [call]}]


def test_dice_fall_the_same_way_for_the_same_seed_only() -> None:
    assert seeded_random(1, "a").random() == seeded_random(1, "a").random()
    assert seeded_random(1, "a").random() != seeded_random(1, "b").random()


def test_dice_are_the_same_on_every_machine() -> None:
    assert [seeded_random(2, "order").randrange(1000) for _ in range(2)] == [423, 423]


def test_a_text_is_read_from_the_package_without_space_around_it() -> None:
    handbook = text("handbook.md")
    assert handbook.startswith("# Handbook")
    assert handbook == handbook.strip()


def test_sections_are_split_at_the_first_headings_level_only() -> None:
    passages = sections("passages.md")
    assert next(iter(passages)) == "Refund of unused labels"
    assert all(part and not part.startswith("#") for part in passages.values())
    files = sections("workspace.md")
    assert "stockroom/money.py" in files
    assert files["stockroom/money.py"].startswith("from __future__")


def test_a_table_gives_its_entries_in_order() -> None:
    first, *_ = table("support.toml", "case")
    assert first["shop"] == "Fio & Lã, wool and knitwear"
