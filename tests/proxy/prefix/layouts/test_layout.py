"""Layouts: found by anchors, applied from the caller's bytes, readable."""

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.layouts.layout import (
    Anchor,
    Hole,
    Layout,
    LayoutMove,
    TextRun,
    Words,
    find_moves,
    instructions,
    layout_lines,
)
from proxy.prefix.layouts.text_pieces import TextPiece
from proxy.prefix.prompts.prompt import PromptSlot, parse_prompt
from tests.fakes.planned_body_check import assert_nothing_lost
from tests.proxy.prefix.arrangement_fixtures import apply_layout
from tests.proxy.prefix.sent_calls import fingerprint

SYSTEM = "You answer mail.\nTime: {}\nUser: {}\n\nBe kind to all.\nNever lie.\n"


def anchor(words):
    return Anchor(fingerprint(words.encode()).hex(), len(words))


ONE, TWO = anchor("Line one"), anchor("Line two")


def prompt(*texts):
    messages = [{"role": "system", "content": text} for text in texts]
    return parse_prompt(
        orjson.dumps({"messages": [*messages, {"role": "user", "content": "Line one"}]})
    )


def words(*texts, passed=None):
    return Words(prompt(*texts), [ONE, TWO], fingerprint, passed or {})


def test_a_hole_lies_between_its_anchors():
    lines = words("Line one\nx\n Line two \n")

    assert lines.find_hole(ONE, TWO) == Hole(1, 2)
    assert lines.find_hole(None, ONE) == Hole(0, 0)
    assert lines.find_hole(TWO, None) == Hole(3, 3)


def test_a_hole_with_missing_or_ambiguous_anchors_is_not_found():
    assert words("x\nLine two").find_hole(ONE, TWO) == "the line before it is gone"
    assert words("Line one\nx").find_hole(ONE, TWO) == "the line after it is gone"
    assert (
        words("Line one\nLine one\nLine two").find_hole(ONE, TWO)
        == "the line before it stands twice"
    )
    assert words("Line two\nLine one").find_hole(ONE, TWO) == "the lines around it changed places"


def test_a_repeated_line_is_a_place_as_long_as_it_stands_as_often():
    second = Anchor(ONE.print, ONE.size, nth=1, total=3)
    repeated = ["Line one\n"] * 3

    assert words("x\n", *repeated).find_hole(None, second) == Hole(0, 2)
    assert words("x\n", *repeated).find_hole(second, None) == Hole(3, 4)
    assert (
        words("x\n", *repeated, "Line one").find_hole(None, second)
        == "the line after it stands 4 times"
    )
    assert words("Line one").find_hole(None, second) == "the line after it stands once"


def test_a_unit_of_the_same_length_is_no_anchor():
    assert words("Lane one\nLine two").find_hole(ONE, TWO) == "the line before it is gone"


def test_blank_units_go_with_the_words_before_them():
    lines = words("\nfirst\n\n\nsecond\n \n")

    assert lines.worded_units(Hole(0, 6)) == [(0, 4), (4, 6)]
    assert lines.worded_units(Hole(2, 4)) == []


def test_runs_cut_texts_into_pieces():
    lines = words("Line one\nx\ny\n", "z\n", "Line two")
    pieces = lines.split_texts([TextRun(1, 4, PromptSlot.VARIABLE, "it")])

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


def test_an_empty_hole_is_behind_the_unit_before_it():
    lines = words("Line one\n", "Line two\n")
    first = lines.split_texts([TextRun(0, 0, PromptSlot.VARIABLE, "it")])
    second = lines.split_texts([TextRun(1, 1, PromptSlot.VARIABLE, "it")])

    assert first[0, 0][2] == TextPiece(PromptSlot.STABLE, "Line one\n")
    assert second[0, 0][0] == TextPiece(PromptSlot.STABLE, "Line one\n")
    assert set(first) == set(second) == {(0, 0)}


def test_skipped_texts_hold_no_anchors():
    assert words("Line one", "Line two", passed={(0, 0): ()}).find_hole(ONE, None) == (
        "the line before it is gone"
    )


def test_the_number_of_searched_texts_is_bounded():
    first, beyond = (words(*["x"] * others, "Line one") for others in (63, 64))

    assert first.find_hole(ONE, None) != "the line before it is gone"
    assert beyond.find_hole(ONE, None) == "the line before it is gone"


def test_instructions_are_the_texts_before_the_conversation():
    assert list(instructions(prompt("a", "", [{"type": "text", "text": "b"}]))) == [
        ((0, 0), "a"),
        ((2, 0), "b"),
    ]


def test_instructions_that_nothing_follows_are_those_all_the_same():
    alone = parse_prompt(orjson.dumps({"messages": [{"role": "developer", "content": "a"}]}))

    assert list(instructions(alone)) == [((0, 0), "a")]


FRONT, BACK = anchor("You answer mail."), anchor("Be kind to all.")
TIME = LayoutMove(
    before=FRONT, after=BACK, slot=PromptSlot.VARIABLE, label="Detail 1", at=0, count=1, of=2,
    calls=20, conversations=5, values=19, saving=1_234_500_000, shows="line 2",
)  # fmt: skip
USER = LayoutMove(
    before=FRONT, after=BACK, slot=PromptSlot.SEMI_STABLE, label="Detail 2", at=1, count=1, of=2
)
BOTH = Layout(version=3, moves=(TIME, USER))


def body(system, *more):
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "Hi"}, *more]
    return orjson.dumps({"messages": messages})


def found(layout, raw, *, late=True):
    return apply_layout(parse_prompt(raw), layout, fingerprint, late=late)


def texts(layout, raw):
    placed = found(layout, raw)
    return [m["content"] for m in orjson.loads(placed.prompt.render())["messages"]], placed.notes


def test_moves_find_their_text_and_it_goes_to_its_slot():
    sent_texts, notes = texts(BOTH, body(SYSTEM.format("noon", "Ines")))

    assert notes == ()
    assert sent_texts == [
        [
            {
                "type": "text",
                "text": (
                    "You answer mail.\n"
                    "[Detail 1 is given at the end of the conversation.]\n"
                    "[Detail 2 is given at the end of the instructions.]\n"
                    "Be kind to all.\nNever lie.\n"
                ),
            },
            {"type": "text", "text": "\n\n[Detail 2]\nUser: Ines"},
        ],
        "Hi",
        "Details for the instructions above:\n\n[Detail 1]\nTime: noon",
    ]


def test_unexpected_lines_move_to_the_slot_that_changes_most():
    sent_texts, _ = texts(BOTH, body(SYSTEM.format("noon\nRain", "Ines")))
    plain, _ = texts(BOTH, body(SYSTEM.format("noon", "Ines")))

    assert sent_texts[0][0] == plain[0][0]
    assert sent_texts[0][1]["text"] == "\n\n[Detail 2]\n(empty)"
    assert sent_texts[2].endswith("[Detail 1]\nTime: noon\nRain\nUser: Ines")


@pytest.mark.parametrize(("length", "role"), [(180, "system"), (220, "user")])
def test_long_text_that_varies_may_be_anybodys_and_gets_no_system_message(length, role):
    placed = found(BOTH, body(SYSTEM.format("x" * length, "Ines")))
    last = orjson.loads(placed.prompt.render())["messages"][-1]

    assert last["role"] == role
    assert "x" * length in last["content"]


def test_an_empty_hole_leaves_the_instructions_unmodified():
    whole = Layout(moves=(msgspec.structs.replace(TIME, at=0, count=0, of=0),))
    sent_texts = [
        texts(whole, body(f"You answer mail.\n{gap}Be kind to all.\n"))[0][0]
        for gap in ("", "\n", "Time: noon\n")
    ]

    assert len(set(sent_texts)) == 1


def test_a_move_whose_lines_are_gone_is_passed_over_with_a_reason():
    gone = msgspec.structs.replace(TIME, before=anchor("No such line"), label="Detail 9")
    sent_texts, notes = texts(Layout(moves=(gone, USER)), body(SYSTEM.format("noon", "Ines")))

    assert notes == ("Detail 9 stays: the line before it is gone",)
    assert sent_texts[0][1]["text"] == "\n\n[Detail 2]\nUser: Ines"


def test_a_move_that_overlaps_another_is_passed_over_with_a_reason():
    wide = LayoutMove(before=FRONT, after=None, slot=PromptSlot.VARIABLE, label="Detail 3")
    _, notes = texts(Layout(moves=(wide, TIME)), body(SYSTEM.format("noon", "Ines")))

    assert notes == ("Detail 3 stays: it overlaps another move",)


def test_text_at_the_start_and_at_the_end_has_one_anchor():
    start = LayoutMove(before=None, after=FRONT, slot=PromptSlot.VARIABLE, label="Detail 1")
    end = LayoutMove(
        before=anchor("Never lie."), after=None, slot=PromptSlot.SEMI_STABLE, label="Detail 2"
    )
    raw = body("Noon\nYou answer mail.\nNever lie.\nInes")
    sent_texts, _ = texts(Layout(moves=(start, end)), raw)

    assert [part["text"] for part in sent_texts[0]] == ["You answer mail.\nNever lie.\n", "Ines"]
    assert sent_texts[2].endswith("[Detail 1]\nNoon")


def test_declared_slots_win_over_the_layout():
    prompt = parse_prompt(body(SYSTEM.format("noon", "Ines")))
    declared = {(0, 0): (TextPiece(PromptSlot.STABLE, SYSTEM.format("noon", "Ines")),)}

    found_moves = find_moves(prompt, BOTH, fingerprint, declared)
    assert found_moves.moves == declared
    assert len(found_moves.notes) == 2
    assert find_moves(prompt, Layout(), fingerprint, declared).moves == declared


def test_an_empty_layout_changes_nothing():
    raw = body(SYSTEM.format("noon", "Ines"))

    assert found(Layout(), raw).prompt.render() == raw


def test_the_number_of_moves_is_bounded():
    many = Layout(moves=(msgspec.structs.replace(TIME, before=BACK),) * 65)
    _, notes = texts(many, body(SYSTEM.format("noon", "Ines")))

    assert len(notes) == 64


def test_a_layout_survives_json():
    assert msgspec.json.decode(msgspec.json.encode(BOTH), type=Layout) == BOTH


def test_a_layout_reads_as_a_story():
    assert layout_lines(BOTH) == [
        "layout 3: 2 moves",
        (
            "Detail 1: line 2 varies per call → variable slot"
            " (19 values in 20 calls of 5 conversations; saves $1.2345 per 1,000 calls)"
        ),
        (
            "Detail 2: text varies between conversations → semi-stable slot"
            " (0 values in 0 calls of 0 conversations; saves $0.0000 per 1,000 calls)"
        ),
    ]


def test_savings_of_few_ended_conversations_are_a_least_or_unknown():
    first, second = layout_lines(msgspec.structs.replace(BOTH, is_early=True))[1:]

    assert first.endswith("20 calls of 5 conversations; saves at least $1.2345 per 1,000 calls)")
    assert second.endswith("; savings not known yet)")


def test_several_lines_vary_and_one_line_varies():
    several = msgspec.structs.replace(TIME, shows="lines 7 to 14")

    assert "lines 7 to 14 vary per call" in layout_lines(Layout(version=1, moves=(several,)))[1]
    assert "line 2 varies per call" in layout_lines(Layout(version=1, moves=(TIME,)))[1]


LINES = st.lists(
    st.sampled_from(
        ["You answer mail.", "Be kind to all.", "Never lie.", "", "Time: noon", "User: Ines"]
    ),
    max_size=9,
).map("\n".join)
ANCHORS = st.sampled_from([None, FRONT, BACK, anchor("Never lie.")])
MOVES = st.builds(
    LayoutMove,
    before=ANCHORS,
    after=ANCHORS,
    slot=st.sampled_from(list(PromptSlot)[1:]),
    label=st.sampled_from(["Detail 1", "Detail 2"]),
    at=st.integers(0, 2),
    count=st.integers(0, 2),
    of=st.integers(0, 3),
)


@given(LINES, LINES, st.lists(MOVES, max_size=3))
def test_no_word_is_lost_by_any_layout(one, two, moves):
    raw = body(one, {"role": "tool", "content": two})
    layout = Layout(moves=tuple(moves))
    sent = found(layout, raw).prompt.render()

    assert_nothing_lost(raw, sent)
    assert found(layout, raw).prompt.render() == sent


@given(
    st.lists(
        st.tuples(st.text("noon ", max_size=5), st.sampled_from(["user", "tool"])),
        min_size=2,
        max_size=4,
    ),
    st.booleans(),
)
def test_a_conversation_with_a_layout_extends_the_bytes_it_sent(calls, late):
    messages = []
    before = None
    for word, role in calls:
        messages += [{"role": "assistant", "content": "a"}, {"role": role, "content": word}]
        prompt = found(BOTH, body(SYSTEM.format(word, "Ines"), *messages), late=late).prompt
        start = before.messages[: len(before.messages) - before.tail] if before else ()
        assert prompt.messages[: len(start)] == start
        before = prompt
