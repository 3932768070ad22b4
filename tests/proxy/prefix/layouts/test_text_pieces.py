"""Texts in pieces, each in its slot."""

import json

from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.layouts.text_pieces import (
    SplitText,
    TextPiece,
    labelled_text,
    reference_text,
    split_text,
    text_in_slot_order,
)
from proxy.prefix.prompts.prompt import PromptSlot

PIECE_WORDS = st.text("abc \n.", max_size=9)
PIECES = st.lists(
    st.builds(
        TextPiece,
        st.sampled_from(list(PromptSlot)),
        PIECE_WORDS,
        st.sampled_from(["Item 1", "Item 2"]),
    ),
    max_size=6,
)
S, SEMI, V = PromptSlot.STABLE, PromptSlot.SEMI_STABLE, PromptSlot.VARIABLE


def stable(text):
    return TextPiece(PromptSlot.STABLE, text)


def semi(text, label="Item 1"):
    return TextPiece(PromptSlot.SEMI_STABLE, text, label)


def varies(text, label="Item 1"):
    return TextPiece(PromptSlot.VARIABLE, text, label)


def test_a_reference_stands_where_text_left_from_between_others():
    pieces = split_text(
        [stable("Be brief.\n"), varies("It is noon.\n"), stable("Be kind.\n")], last=False
    )

    assert pieces.stable == (
        "Be brief.\n[Item 1 is given at the end of the conversation.]\nBe kind.\n"
    )
    assert pieces.gone == (varies("It is noon.\n"),)


def test_stable_text_does_not_depend_on_the_text_that_moves():
    pieces = [[stable("One "), semi(text), stable("two.")] for text in ("", "x", "\n\ny\n")]

    assert len({split_text(piece, last=True).stable for piece in pieces}) == 1


def test_a_reference_within_a_line_is_part_of_it():
    pieces = split_text([stable("You serve"), semi("Ines"), stable(", a customer.")], last=True)

    assert (
        pieces.stable == "You serve [Item 1 is given at the end of the instructions.], a customer."
    )


def test_neighbouring_moved_pieces_share_one_reference():
    pieces = split_text([stable("a\n"), varies("b"), semi("c", "Item 2"), stable("d")], last=True)

    assert pieces.stable == (
        "a\n[Item 1 is given at the end of the conversation.]\n"
        "[Item 2 is given at the end of the instructions.]\nd"
    )


def test_a_reference_stands_behind_what_introduces_the_text_that_left_the_end():
    pieces = split_text(
        [stable("Be kind.\nFound for the question:\n"), varies("One.\n")], last=True
    )

    assert pieces.stable == (
        "Be kind.\nFound for the question:\n[Item 1 is given at the end of the conversation.]"
    )


def test_a_reference_in_json_is_a_member_where_text_left_any_place():
    pieces = split_text(
        [stable('{"a": 1,'), varies('"b": 2,'), varies('"c": 3', "Item 2"), stable("}")], last=True
    )

    assert json.loads(pieces.stable) == {
        "a": 1,
        "Item 1": "given at the end of the conversation",
        "Item 2": "given at the end of the conversation",
    }


def test_no_reference_stands_for_text_moved_from_an_end():
    pieces = split_text([varies("noon\n"), stable("Be kind."), varies("bye")], last=False)

    assert pieces == SplitText("Be kind.", gone=(varies("noon\n"), varies("bye")))


def test_semi_stable_text_at_the_end_stays_there():
    pieces = split_text(
        [stable("Be kind.\n"), semi("User: Ines\n"), stable("\n"), varies("x")], last=True
    )

    assert pieces == SplitText("Be kind.\n", "User: Ines\n\n", (varies("x"),))


def test_semi_stable_text_goes_where_stable_text_follows_in_another_part():
    pieces = split_text([stable("Be kind.\n"), semi("User: Ines\n")], last=False)

    assert pieces == SplitText("Be kind.\n", gone=(semi("User: Ines\n"),))


def test_pieces_in_order_stay_as_they_were():
    assert text_in_slot_order([stable("a"), varies(" "), semi("b"), varies("c")]) == "a bc"


def test_a_message_of_its_own_is_put_in_order_within():
    assert text_in_slot_order([varies("now"), stable("rules")]) == "rules\n\n[Item 1]\nnow"
    assert text_in_slot_order([stable("a\n"), varies("b"), stable("c")]) == (
        "a\n[Item 1 is given below.]\nc\n\n[Item 1]\nb"
    )


def test_a_message_without_stable_text_is_put_in_order_too():
    assert (
        text_in_slot_order([varies("now"), semi("who", "Item 2")])
        == "[Item 2]\nwho\n\n[Item 1]\nnow"
    )


def test_an_empty_piece_is_labelled_empty():
    assert labelled_text([varies("\n")]) == "[Item 1]\n(empty)"
    assert reference_text([varies(""), semi("")]).count("\n") == 1


@given(PIECES, st.booleans())
def test_no_word_of_a_split_text_is_lost(pieces, last):
    pieces_of_text = split_text(pieces, last=last)
    there = pieces_of_text.stable + pieces_of_text.ending + labelled_text(pieces_of_text.gone)

    for word in " ".join(piece.text for piece in pieces if piece.text.strip()).split():
        assert word.strip(".") in there
    for piece in pieces:
        assert piece.text.strip() in text_in_slot_order(pieces)
