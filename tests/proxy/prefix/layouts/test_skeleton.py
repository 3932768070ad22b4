"""Units that recur, and the gaps between them."""

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.layouts.samples import Samples
from proxy.prefix.layouts.skeleton import find_gaps, group_by_template

MAX_COLUMNS = 16
MIN_CONVERSATIONS = 5

RULES = ["You answer mail.", "Be kind to all.", "Never lie.", "Sign with our name."]


def fingerprint(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()


def samples(*conversations):
    """Samples of conversations, each a list of the texts of its calls."""
    samples_kept = Samples(fingerprint, shows=True)
    for number, calls in enumerate(conversations):
        for call, text in enumerate(calls):
            samples_kept.add_call([text], number.to_bytes(2, "big"), 0.0, first=call == 0)
    return samples_kept.conversations


def summary(skeleton):
    return [
        (
            gap.before.unit.words if gap.before else None,
            gap.after.unit.words if gap.after else None,
            [(c.index, c.of, c.line) for c in gap.columns],
        )
        for gap in skeleton
    ]


def template(*varies):
    return "\n".join([RULES[0], *varies, *RULES[1:]])


def test_a_line_that_differs_is_a_column_of_its_gap():
    gaps = find_gaps(
        samples(*([template(f"Time: {n}", "", "Club", f"User {n}")] for n in range(5)))
    )

    assert summary(gaps) == [
        (None, RULES[0], []),
        (RULES[0], "Club", [(0, 1, 2)]),
        ("Club", RULES[1], [(0, 1, 5)]),
        (RULES[1], RULES[2], []),
        (RULES[2], RULES[3], []),
        (RULES[3], None, []),
    ]


def test_lines_that_tell_nothing_stay_in_their_gap_as_they_are():
    gaps = find_gaps(samples(*([template("```", f"Time: {n}", "```")] for n in range(5))))

    assert summary(gaps)[1] == (RULES[0], RULES[1], [(1, 3, 3)])


def test_a_gap_of_differing_length_is_one_column():
    gaps = find_gaps(samples(*([template(*[f"Passage {n}"] * n)] for n in range(5))))

    assert summary(gaps)[1] == (RULES[0], RULES[1], [(0, 0, 2)])


def test_a_gap_of_many_lines_is_one_column():
    lines = [[f"{n} {line}" for line in range(MAX_COLUMNS + 1)] for n in range(5)]
    gaps = find_gaps(samples(*([template(*line)] for line in lines)))

    assert summary(gaps)[1] == (RULES[0], RULES[1], [(0, 0, 2)])


def test_each_of_sixteen_lines_is_a_column():
    lines = [[f"{n} {line}" for line in range(MAX_COLUMNS)] for n in range(5)]
    gaps = find_gaps(samples(*([template(*line)] for line in lines)))

    assert [column.index for column in gaps[1].columns] == list(range(16))


def test_a_line_that_stands_twice_is_no_anchor():
    gaps = find_gaps(samples(*([template("Never lie.", f"Time {n}")] for n in range(5))))

    assert (RULES[0], RULES[1], [(1, 2, 3)]) in summary(gaps)


def test_instructions_that_repeat_themselves_have_each_repetition_as_a_place():
    texts = [
        "\n".join([f"Time {n}", *[RULES[1]] * 30, f"User {n}", *[RULES[1]] * 2]) for n in "abcde"
    ]
    gaps = find_gaps(samples(*([text] for text in texts)))

    varying = [gap for gap in gaps if gap.columns]
    assert [gap.after.mark[1:] for gap in varying if gap.after] == [(0, 32), (30, 32)]
    assert [gap.columns[0].line for gap in varying] == [1, 32]


def test_repetitions_whose_number_differs_are_no_places():
    texts = ["\n".join([f"Time {n}", *[RULES[1]] * (30 + n)]) for n in range(5)]

    assert find_gaps(samples(*([text] for text in texts))) == []


def test_lines_that_change_places_are_no_anchors():
    lines = [f"Skill {name}" for name in "abcdefg"]
    gaps = find_gaps(samples(*([template(*lines[n:], *lines[:n])] for n in range(6))))

    assert len(gaps) == len(RULES) + 1
    assert summary(gaps)[1] == (RULES[0], RULES[1], [(index, 7, index + 2) for index in range(7)])


def test_one_line_that_wanders_far_leaves_the_others_their_places():
    rules = [f"Rule {number}" for number in range(30)]
    gaps = find_gaps(
        samples(*(["\n".join([*rules[:n], "Wander", *rules[n:]])] for n in (0, 30) * 5))
    )

    assert [after for _, after, _ in summary(gaps)[:-1]] == rules


def test_one_odd_conversation_among_many_is_left_out():
    odd = template("Time 1").replace(RULES[2], "Lie!")
    gaps = find_gaps(samples(*([template(f"Time {n}")] for n in range(19)), [odd]))

    assert len(gaps) == len(RULES) + 1
    assert len(gaps[0].samples) == 19


def test_many_odd_conversations_leave_what_all_of_them_share():
    templates = [template(f"Time {n}") for n in range(30)]
    for n in range(6):
        templates[n] = templates[n].replace(RULES[n % 3], f"Odd {n}")
    gaps = find_gaps(samples(*([text] for text in templates)))

    assert [place[:2] for place in summary(gaps)] == [(None, RULES[3]), (RULES[3], None)]
    assert len(gaps[0].samples) == 30


def test_texts_with_nothing_in_common_have_no_skeleton():
    assert find_gaps(samples(["One text"], ["Another text"])) == []


def test_conversations_are_grouped_by_template():
    first = [[template(f"Time {n}")] for n in range(MIN_CONVERSATIONS)]
    second = [[f"Other agent\nTime {n}\nOther rules"] for n in range(MIN_CONVERSATIONS + 1)]
    lone = [["Something else altogether"]]
    groups = group_by_template(samples(*first, *lone, *second))

    assert [len(group) for group in groups] == [MIN_CONVERSATIONS, MIN_CONVERSATIONS + 1]


@pytest.mark.parametrize(("alike", "sizes"), [(4, [8]), (5, [5, 8])])
def test_a_template_of_five_conversations_among_many_is_a_group(alike: int, sizes: list[int]):
    first = [[template(f"Time {n}")] for n in range(alike)]
    second = [[f"Other agent\nTime {n}\nOther rules"] for n in range(8)]
    groups = group_by_template(samples(*first, *second))

    assert [len(group) for group in groups] == sizes


def test_where_nothing_recurs_there_is_no_group():
    assert group_by_template(samples(*([f"One {n}"] for n in range(20)))) == []


@pytest.mark.parametrize(("passed", "kept"), [(8, 22), (9, 30)])
def test_a_line_that_passes_eight_others_shuffles_them_and_one_that_passes_nine_does_not(
    passed: int, kept: int
):
    rules = [f"Rule {number}" for number in range(30)]
    orders = [[*rules[:place], "Wander", *rules[place:]] for place in (0, passed)]
    gaps = find_gaps(samples(*(["\n".join(lines)] for lines in orders * 5)))

    assert len(gaps) == kept + 1


@pytest.mark.parametrize(("own", "groups"), [(1, 1), (2, 2)])
def test_templates_that_share_half_of_their_lines_are_one(own: int, groups: int):
    """Two lines are shared; the first has one or two of its own, the second one."""
    first = "\n".join([*RULES[:2], *["Rule one", "Rule two"][:own]])
    second = "\n".join([*RULES[:2], RULES[3]])
    every = samples(*([first], [second]) * 5)

    assert len(group_by_template(every)) == groups


@pytest.mark.parametrize(("last", "gaps"), [("Be kind to all", 4), ("Be kind to all today", 2)])
def test_repetitions_are_places_where_they_are_more_than_half_of_the_bytes(last: str, gaps: int):
    texts = ["\n".join([f"Time {n}", RULES[2], RULES[2], last]) for n in "abcde"]

    assert len(find_gaps(samples(*([text] for text in texts)))) == gaps


@given(st.lists(st.lists(st.sampled_from([*RULES, "-", "Odd line"]), max_size=6), min_size=1))
def test_any_texts_give_gaps_or_none(texts):
    gaps = find_gaps(samples(*(["\n".join(lines)] for lines in texts)))

    assert len(gaps) != 1
    for gap in gaps:
        for column in gap.columns:
            assert len(column.values) == len(gap.samples)


def test_few_conversations_are_a_group_too():
    one = samples([template("Time: 1"), template("Time: 2")])
    two = samples([template("Time: 1")], [template("Time: 2")], ["Something else altogether."])

    assert [len(group) for group in group_by_template(one)] == [1]
    assert sorted(len(group) for group in group_by_template(two)) == [1, 2]
