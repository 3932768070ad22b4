"""Places in the instructions, found by what stands around them."""

from hashlib import blake2b

import orjson

from proxy.prefix.layouts.holes import TEXTS, Anchor, Hole, Words, instructions
from proxy.prefix.layouts.order import TextPiece
from proxy.prefix.prompts.prompt import PromptSlot, parse_prompt


def fingerprint(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()


def anchor(words):
    return Anchor(fingerprint(words.encode()).hex(), len(words))


ONE, TWO = anchor("Line one"), anchor("Line two")


def prompt(*texts):
    messages = [{"role": "system", "content": said} for said in texts]
    return parse_prompt(
        orjson.dumps({"messages": [*messages, {"role": "user", "content": "Line one"}]})
    )


def words(*texts, passed=None):
    return Words(prompt(*texts), [ONE, TWO], fingerprint, passed or {})


def test_a_place_lies_between_its_anchors():
    found = words("Line one\nx\n Line two \n")

    assert found.hole(ONE, TWO) == Hole(1, 2)
    assert found.hole(None, ONE) == Hole(0, 0)
    assert found.hole(TWO, None) == Hole(3, 3)


def test_a_place_may_be_missing_or_unclear():
    assert words("x\nLine two").hole(ONE, TWO) == "the line before it is gone"
    assert words("Line one\nx").hole(ONE, TWO) == "the line after it is gone"
    assert words("Line one\nLine one\nLine two").hole(ONE, TWO) == "the line before it stands twice"
    assert words("Line two\nLine one").hole(ONE, TWO) == "the lines around it changed places"


def test_a_unit_of_the_same_length_is_no_anchor():
    assert words("Lane one\nLine two").hole(ONE, TWO) == "the line before it is gone"


def test_blank_units_go_with_the_words_before_them():
    found = words("\nfirst\n\n\nsecond\n \n")

    assert found.entries(Hole(0, 6)) == [(0, 4), (4, 6)]
    assert found.entries(Hole(2, 4)) == []


def test_runs_cut_texts_into_pieces():
    found = words("Line one\nx\ny\n", "z\n", "Line two")
    pieces = found.pieces([(1, 4, PromptSlot.VARIABLE, "it")])

    assert pieces == {
        (0, 0): (
            TextPiece(PromptSlot.STABLE, "Line one\n"),
            TextPiece(PromptSlot.VARIABLE, "x\ny\n", "it"),
            TextPiece(PromptSlot.STABLE, ""),
        ),
        (1, 0): (
            TextPiece(PromptSlot.STABLE, ""),
            TextPiece(PromptSlot.VARIABLE, "z\n", "it"),
            TextPiece(PromptSlot.STABLE, ""),
        ),
    }


def test_an_empty_place_is_behind_the_unit_before_it():
    found = words("Line one\n", "Line two\n")
    first = found.pieces([(0, 0, PromptSlot.VARIABLE, "it")])
    second = found.pieces([(1, 1, PromptSlot.VARIABLE, "it")])

    assert first[0, 0][2] == TextPiece(PromptSlot.STABLE, "Line one\n")
    assert second[0, 0][0] == TextPiece(PromptSlot.STABLE, "Line one\n")
    assert set(first) == set(second) == {(0, 0)}


def test_texts_that_are_passed_over_hold_no_place():
    assert words("Line one", "Line two", passed={(0, 0): ()}).hole(ONE, None) == (
        "the line before it is gone"
    )


def test_only_so_many_texts_are_looked_at():
    found = words(*["x"] * TEXTS, "Line one")

    assert found.hole(ONE, None) == "the line before it is gone"


def test_instructions_are_the_texts_before_the_conversation():
    assert list(instructions(prompt("a", "", [{"type": "text", "text": "b"}]))) == [
        ((0, 0), "a"),
        ((2, 0), "b"),
    ]


def test_instructions_that_nothing_follows_are_those_all_the_same():
    alone = parse_prompt(orjson.dumps({"messages": [{"role": "developer", "content": "a"}]}))

    assert list(instructions(alone)) == [((0, 0), "a")]
