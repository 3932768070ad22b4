"""Tests of the prompt that asks a small model for notes."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from compaction.facts.fact import Fact, FactKind
from compaction.notes.note_prompt import (
    MAX_ANSWER_TOKENS,
    MAX_REGION_BYTES,
    compacted_messages,
    note_request_body,
    render_region,
)
from tests.compaction.notes.note_fixtures import BOOKING, calls, of, result, says, user


def test_the_request_is_a_chat_body_with_a_bounded_answer_and_no_tools():
    body = orjson.loads(note_request_body(of(*BOOKING), model="small"))

    assert body["model"] == "small"
    assert body["max_completion_tokens"] == MAX_ANSWER_TOKENS
    assert "tools" not in body
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert '"kind": "decision"' in body["messages"][0]["content"]


def test_every_message_is_a_line_with_its_turn_and_a_tools_text_is_data():
    lines = [orjson.loads(line) for line in render_region(of(*BOOKING))]

    assert [line["turn"] for line in lines] == [1, 1, 1, 1, 2, 2]
    assert lines[1]["calls"] == [{"tool": "get_booking", "with": '{"id": "W7GHI8"}'}]
    assert lines[2]["who"] == "tool"
    assert "HAT012" in lines[2]["data"]
    assert "text" not in lines[2]


def test_authority_and_what_stays_a_message_are_not_asked_about():
    part = of(*BOOKING, kept_indexes=frozenset({5}))

    assert [index for _, index, _ in compacted_messages(part)] == [1, 2, 3, 4, 6]
    assert [index for _, index, _ in compacted_messages(part, {2})] == [6]


@given(st.text(), st.text())
def test_no_text_makes_a_line_of_its_own(one, other):
    lines = render_region(of(user(one), calls("look", other), result(one), says(other)))

    assert [orjson.loads(line)["turn"] for line in lines] == [1, 1, 1, 1]
    assert all(len(line.splitlines()) == 1 for line in lines if line.isascii())


def test_a_secret_is_not_sent_to_the_model():
    secret = "sk-" + "a1B2" * 8
    body = note_request_body(of(user(f"My key is {secret}."), says("Thanks.")), model="small")

    assert secret.encode() not in body
    assert b"[secret]" in body


def test_a_long_part_is_cut_in_its_messages_first():
    part = of(*[user("start " + "word " * 3_000 + f"end{number}") for number in range(20)])
    lines = render_region(part)

    assert len(lines) == 20
    assert sum(len(line.encode()) + 1 for line in lines) <= MAX_REGION_BYTES
    assert all("start" in line and f"end{n}" in line for n, line in enumerate(lines))


def test_a_region_too_long_for_the_prompt_drops_its_oldest_messages():
    part = of(*[user(f"message {number} " + "word " * 60) for number in range(1_000)])
    lines = render_region(part)

    assert sum(len(line.encode()) + 1 for line in lines) <= MAX_REGION_BYTES
    assert "message 999" in lines[-1]
    assert 100 < len(lines) < 1_000


def test_half_a_character_does_not_stop_it():
    raw = b'{"role":"user","content":"half \\ud83d of it"}'
    part = of(user("whole"))
    half = part.region.messages[0].__class__
    message = half(
        raw=raw, digest=b"", role="user", voice=part.region.messages[0].voice, text="half \ud83d"
    )
    from msgspec.structs import replace  # noqa: PLC0415 - for this one only

    region = replace(part.region, messages=(message,))

    assert "half ?" in render_region(replace(part, region=region))[0]


def test_known_facts_that_may_be_noted_are_shown_and_bounded():
    known_facts = [
        Fact(kind=FactKind.RULE, text="Never book basic economy.", turns=(1,)),
        Fact(kind=FactKind.RECORD, text="not asked for", turns=(1,)),
        *[Fact(kind=FactKind.TODO, text=f"todo {n} " + "x" * 600, turns=(1,)) for n in range(100)],
    ]
    prompt = orjson.loads(note_request_body(of(*BOOKING), known_facts, model="small"))["messages"][
        1
    ]["content"]

    assert '{"kind":"rule","text":"Never book basic economy.","turns":[1]}' in prompt
    assert "not asked for" not in prompt
    assert 5 < prompt.count('"kind":"todo"') < 30
