"""Slots that callers name beside the prompt."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.layouts.named import MOST, named_slots
from proxy.prefix.layouts.order import place_pieces
from proxy.prefix.layouts.pieces import TextPiece
from proxy.prefix.prompts.prompt import PromptSlot, parse_prompt
from tests.fakes.kept import kept

TALK = (
    ("system", "Be kind."),
    ("developer", "Ines likes short answers."),
    ("system", "It is noon."),
    ("user", "Hello"),
    ("assistant", "Hi"),
    ("user", "When?"),
)


def body(*messages, **fields):
    said = [{"role": role, "content": content} for role, content in messages]
    return orjson.dumps({"messages": said, **fields})


def found(header, *messages, **fields):
    return named_slots(parse_prompt(body(*messages or TALK, **fields)), header)


def test_a_header_names_messages_by_their_number():
    told = found("0=stable, 1=semi-stable,2=variable")

    assert told.wish == {
        (0, 0): (TextPiece(PromptSlot.STABLE, "Be kind."),),
        (1, 0): (TextPiece(PromptSlot.SEMI_STABLE, "Ines likes short answers."),),
        (2, 0): (TextPiece(PromptSlot.VARIABLE, "It is noon."),),
    }
    assert told.notes == ()


def test_what_is_named_variable_comes_last_and_what_is_semi_stable_ends_the_instructions():
    prompt = parse_prompt(body(*TALK))

    sent = place_pieces(prompt, named_slots(prompt, "2=variable").wish).prompt

    assert [orjson.loads(one)["content"] for one in sent.messages] == [
        "Be kind.",
        "Ines likes short answers.",
        "Hello",
        "Hi",
        "When?",
        "Details for the instructions above:\n\n[Item 1]\nIt is noon.",
    ]


def test_a_part_of_a_message_is_named_by_its_number_within_it():
    texts = [{"type": "text", "text": word} for word in ("Tuesday", "Be kind.")]

    told = found("0.0=variable", ("system", texts), ("user", "Hello"))

    assert told.wish == {(0, 0): (TextPiece(PromptSlot.VARIABLE, "Tuesday"),)}


def test_metadata_says_the_same_where_no_header_does():
    metadata = {"thriftgate_slots": "2=variable"}

    assert found("", metadata=metadata) == found("2=variable")
    assert found("0=stable", metadata=metadata) == found("0=stable")


def test_where_nobody_says_anything_nothing_is_wished():
    for metadata in (
        None,
        {},
        {"thriftgate_slots": 7},
        {"thriftgate_slots": " "},
        "thriftgate_slots",
    ):
        assert found("", metadata=metadata).wish == {}


def test_naming_everything_stable_changes_nothing():
    prompt = parse_prompt(
        rb'{"messages": [{"role":"system","content":"caf\u00e9"}, {"role":"user","content":"a"}]}'
    )

    sent = place_pieces(prompt, named_slots(prompt, "0=stable,1=stable").wish).prompt

    assert orjson.loads(sent.render()) == orjson.loads(prompt.render())


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("0=steady", "none like"),
        ("first=stable", "none like"),
        ("-1=stable", "none like"),
        ("99999=stable", "no such message"),
        ("4=variable", "only instructions"),
        ("0.7=stable", "no such text"),
        ("0:stable", "none like"),
    ],
)
def test_a_name_that_fits_nothing_is_passed_over_with_a_reason(header, why):
    told = found(header + ",2=variable")

    assert list(told.wish) == [(2, 0)]
    assert why in told.notes[0]


def test_of_too_many_names_the_first_are_read():
    told = found(",".join(["0=stable"] * (MOST + 5_000)))

    assert "too many" in told.notes[0]
    assert len(told.notes) == 1
    assert len(told.notes[0]) < 200


@given(
    st.text(max_size=60),
    st.lists(st.sampled_from(["0", "1", "2", "3", "5", "3.0", "9"]), max_size=4),
)
def test_no_word_is_ever_lost(junk, places):
    header = ",".join([f"{at}=variable" for at in places] + [junk])
    prompt = parse_prompt(body(*TALK))

    kept(body(*TALK), place_pieces(prompt, named_slots(prompt, header).wish).prompt.render())
