"""Texts in pieces, and what is written where they go and where they stood."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.layouts.pieces import Cut, Piece, cut, labelled, references, within
from proxy.prefix.prompts.prompt import Slot

WORDS = st.text("abc \n.", max_size=9)
PIECES = st.lists(
    st.builds(Piece, st.sampled_from(list(Slot)), WORDS, st.sampled_from(["Item 1", "Item 2"])),
    max_size=6,
)


def stable(text):
    return Piece(Slot.STABLE, text)


def semi(text, label="Item 1"):
    return Piece(Slot.SEMI_STABLE, text, label)


def varies(text, label="Item 1"):
    return Piece(Slot.VARIABLE, text, label)


def test_a_reference_stands_where_text_left_from_between_others():
    found = cut([stable("Be brief.\n"), varies("It is noon.\n"), stable("Be kind.\n")], last=False)

    assert found.kept == (
        "Be brief.\n[Item 1 is given at the end of the conversation.]\nBe kind.\n"
    )
    assert found.gone == (varies("It is noon.\n"),)


def test_what_stays_does_not_depend_on_what_goes():
    pieces = [[stable("One "), semi(said), stable("two.")] for said in ("", "x", "\n\ny\n")]

    assert len({cut(each, last=True).kept for each in pieces}) == 1


def test_within_a_line_the_reference_is_part_of_it():
    found = cut([stable("You serve"), semi("Ines"), stable(", a customer.")], last=True)

    assert found.kept == "You serve [Item 1 is given at the end of the instructions.], a customer."


def test_neighbours_share_a_place():
    found = cut([stable("a\n"), varies("b"), semi("c", "Item 2"), stable("d")], last=True)

    assert found.kept == (
        "a\n[Item 1 is given at the end of the conversation.]\n"
        "[Item 2 is given at the end of the instructions.]\nd"
    )


def test_nothing_refers_to_what_stood_at_an_end():
    found = cut([varies("noon\n"), stable("Be kind."), varies("bye")], last=False)

    assert found == Cut("Be kind.", gone=(varies("noon\n"), varies("bye")))


def test_semi_stable_text_at_the_end_stays_there():
    found = cut([stable("Be kind.\n"), semi("User: Ines\n"), stable("\n"), varies("x")], last=True)

    assert found == Cut("Be kind.\n", "User: Ines\n\n", (varies("x"),))


def test_semi_stable_text_goes_where_stable_text_follows_in_another_part():
    found = cut([stable("Be kind.\n"), semi("User: Ines\n")], last=False)

    assert found == Cut("Be kind.\n", gone=(semi("User: Ines\n"),))


def test_pieces_in_order_stay_as_they_were():
    assert within([stable("a"), varies(" "), semi("b"), varies("c")]) == "a bc"


def test_a_message_of_its_own_is_put_in_order_within():
    assert within([varies("now"), stable("rules")]) == "rules\n\n[Item 1]\nnow"
    assert within([stable("a\n"), varies("b"), stable("c")]) == (
        "a\n[Item 1 is given below.]\nc\n\n[Item 1]\nb"
    )


def test_a_message_without_stable_text_is_put_in_order_too():
    assert within([varies("now"), semi("who", "Item 2")]) == "[Item 2]\nwho\n\n[Item 1]\nnow"


def test_an_empty_piece_says_so():
    assert labelled([varies("\n")]) == "[Item 1]\n(empty)"
    assert references([varies(""), semi("")]).count("\n") == 1


@given(PIECES, st.booleans())
def test_no_word_is_lost(pieces, last):
    found = cut(pieces, last=last)
    there = found.kept + found.ending + labelled(found.gone)

    for word in " ".join(piece.text for piece in pieces if piece.text.strip()).split():
        assert word.strip(".") in there
    for piece in pieces:
        assert piece.text.strip() in within(pieces)
