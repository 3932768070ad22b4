"""The message object: usage and why it stopped."""

import msgspec
import pytest

from proxy.providers.chat.chat_chunk import read_chunk
from proxy.providers.messages.reader import (
    final_delta,
    messages_counts,
    opening_message,
)
from tests.fakes.messages_calls import Json


@pytest.mark.parametrize(
    ("finish", "stop", "calls", "refused", "reason"),
    [
        ("stop", None, False, False, "end_turn"),
        ("stop", "END", False, False, "stop_sequence"),
        ("stop", None, True, False, "tool_use"),
        ("stop", None, False, True, "refusal"),
        ("length", None, True, False, "max_tokens"),
        ("tool_calls", None, True, False, "tool_use"),
        ("function_call", None, True, False, "tool_use"),
        ("content_filter", "END", False, False, "refusal"),
        ("eos", None, False, False, "end_turn"),
        (None, None, False, False, "end_turn"),
    ],
)
def test_the_stop_reason_follows_chats_and_what_was_said(
    *, finish: str | None, stop: str | None, calls: bool, refused: bool, reason: str
) -> None:
    sequence = "END" if reason == "stop_sequence" else None

    assert final_delta(finish, stop, calls=calls, refused=refused) == {
        "stop_reason": reason,
        "stop_sequence": sequence,
    }


@pytest.mark.parametrize(
    ("usage", "tier", "counts"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 4}, None, (9, 0, 0, 4, {})),
        ({"prompt_tokens": 9, "completion_tokens": 4,
          "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 2},
          "completion_tokens_details": {"reasoning_tokens": 3}}, "default",
         (1, 2, 6, 4, {
             "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 0},
             "output_tokens_details": {"thinking_tokens": 3}, "service_tier": "standard"})),
        ({"prompt_tokens": 9, "completion_tokens": 0,
          "prompt_tokens_details": {
              "cache_write_tokens": 5, "cache_write_tokens_details": {"ttl_12h_tokens": 5}}},
         "priority",
         (4, 5, 0, 0, {
             "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 5},
             "service_tier": "priority"})),
        ({"prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 3, "completion_tokens": 1},
         "flex", (3, 0, 6, 1, {})),
        ({}, "default", (0, 0, 0, 0, {})),
    ],
)  # fmt: skip
def test_input_excludes_what_a_cache_read_or_stored(
    usage: Json, tier: str | None, counts: tuple[int, int, int, int, Json]
) -> None:
    read, write, cached, output, more = counts

    assert messages_counts(usage, tier) == {
        "input_tokens": read,
        "cache_creation_input_tokens": write,
        "cache_read_input_tokens": cached,
        "output_tokens": output,
        **more,
    }


def test_a_message_opens_empty() -> None:
    opened = opening_message("msg_1", "m")

    assert (opened["id"], opened["model"], opened["content"]) == ("msg_1", "m", [])
    assert opened["usage"]["input_tokens"] == 0


def test_an_answer_that_is_nearly_json_is_read() -> None:
    assert read_chunk(b'{"id":"c","usage":{"cost":NaN}}').usage == {"cost": None}
    with pytest.raises(msgspec.DecodeError):
        read_chunk(b"<html>")
