import pytest

from compaction.facts.candidates import Candidate, CandidatePin
from compaction.facts.fact import Fact, FactKind
from compaction.facts.fitting import Fitting, message_factors, region_words
from tests.compaction.facts.regions import assistant, call_and_result, read_contents, texts, user

NO_PIN = CandidatePin.ALWAYS + 1
PART = read_contents(
    user("Never pay twice."),
    assistant("Well, that is so nice of you."),
    assistant("Order W-4711 waits in Oslo until 2026-05-03."),
    assistant("done"),
)


def fact(kind: FactKind, text: str, index: int) -> Fact:
    return Fact(kind=kind, text=text, turns=(1,), messages=(index,))


RULE = Candidate(((fact(FactKind.RULE, "Never pay twice.", 0),),), is_mark=True)
EMPTY = Candidate(((fact(FactKind.REPLY, "Well, that is so nice of you.", 1),),))
TELLS = Candidate(
    (
        (fact(FactKind.REPLY, "Order W-4711 waits in Oslo until 2026-05-03.", 2),),
        (fact(FactKind.REPLY, "W-4711", 2),),
    ),
    pin=CandidatePin.TELLING,
)
FAILED = Candidate(
    (
        (fact(FactKind.ACTION, "pay(to=Bo, note=for the lamp) → error: no", 1),),
        (fact(FactKind.ACTION, "pay(…) → error: no", 1),),
    )
)
PAID = Candidate(((fact(FactKind.ACTION, "pay(to=W-4711, by=card) → ok", 3),),))


def fill_room(room, *candidates, least_pin=NO_PIN):
    factors = message_factors(PART, [], decays=False)
    fitting = Fitting(candidates, region_words(PART), factors, lambda text: len(text) // 4)
    facts, gone = fitting.fill(room, least_pin)
    return texts(facts), [candidate.fact.text for candidate in gone]


def test_the_room_goes_to_what_is_worth_most_per_token():
    assert fill_room(18, EMPTY, TELLS) == (texts(TELLS.variants[0]), texts(EMPTY.variants[0]))


def test_a_shorter_variant_stands_where_the_richer_one_does_not_fit():
    assert fill_room(4, TELLS) == (["W-4711"], [])
    assert fill_room(40, TELLS) == (texts(TELLS.variants[0]), [])


def test_a_rule_stands_whatever_room_there_is():
    assert fill_room(0, RULE, TELLS)[0] == ["Never pay twice."]


def test_pinned_candidates_stand_whatever_room_there_is():
    assert fill_room(0, TELLS, EMPTY, least_pin=CandidatePin.TELLING)[0] == texts(TELLS.variants[0])
    assert fill_room(0, TELLS, least_pin=CandidatePin.ALWAYS)[0] == []


def test_a_failure_stands_before_a_success_that_is_worth_more():
    stands, gone = fill_room(19, PAID, FAILED)

    assert len(stands) == 1
    assert stands[0].endswith("→ error: no")
    assert gone == ["pay(to=W-4711, by=card) → ok"]


def test_no_success_stands_where_a_failure_had_no_room():
    assert fill_room(17, PAID, FAILED)[0] == []


def test_rules_and_failures_must_stand_at_least_length():
    factors = message_factors(PART, [], decays=False)
    fitting = Fitting([RULE, TELLS, FAILED, PAID], region_words(PART), factors, len)

    assert texts(fitting.least_facts()) == ["Never pay twice.", "pay(…) → error: no"]


def test_a_fitting_gives_the_same_however_often_it_is_filled():
    assert fill_room(12, EMPTY, TELLS) == fill_room(12, EMPTY, TELLS)


def test_factors_rise_with_time_and_for_failures_and_fall_with_length():
    part = read_contents(user("a"), assistant("b"), assistant("c" * 2_000), assistant("d"))
    factors = message_factors(part, [], decays=False)

    assert factors[1] < factors[3]
    assert factors[2] < factors[1]
    assert message_factors(part, [1], decays=False)[1] > factors[1]


def test_factors_of_users_results_failures_and_long_texts():
    turns = [user("a"), assistant("b"), *call_and_result("bash", "x", command="ls")]
    part = read_contents(*turns, assistant("c" * 400), assistant("d" * 8_000))
    factors = message_factors(part, [1], decays=False)

    shown = {index: round(factor, 4) for index, factor in factors.items()}
    assert shown == {0: 0.7367, 1: 2.8, 2: 1.0, 3: 1.0333, 4: 0.5667, 5: 0.06}


@pytest.mark.parametrize(("calls", "age"), [(60, 24.2), (10, 12)])
def test_results_that_can_be_read_again_are_worth_half_after_a_fifth_or_twelve_messages(
    calls: int, age: float
):
    views = [call_and_result("bash", "x", f"c{n}", command="ls") for n in range(calls)]
    factors = message_factors(read_contents(user("Fix it"), *views), [], decays=True)
    newest = 2 * calls

    assert factors[0] == factors[newest] == 7.0
    assert factors[newest - 12] == pytest.approx(1 + 6 * 0.5 ** (12 / age))


@pytest.mark.parametrize(
    ("kind", "text", "room"),
    [
        (FactKind.REPLY, "Order W-4711 waits in Oslo.", 6 + 1),
        (FactKind.USER, "Order W-4711 waits in Oslo.", 6 + 4),
        (FactKind.SLICE, "of " * 12, 33),  # four tenths of it for nine tokens and four
    ],
)
def test_a_fact_stands_from_so_much_room_on(kind: FactKind, text: str, room: int):
    candidate = Candidate(((fact(kind, text, 2),),))

    assert [len(fill_room(size, candidate)[0]) for size in (room - 1, room)] == [0, 1]


def test_a_word_that_stands_again_in_a_file_keeps_65_percent_of_its_worth():
    words = region_words(PART, decays=True)
    words.telling_words("W-4711")

    assert words.again["W-4711"] / words.first["W-4711"] == pytest.approx(0.65)


def test_where_results_can_be_read_again_only_the_newest_and_the_task_are_worth_much():
    part = read_contents(
        user("Fix it"), *[call_and_result("bash", "x", f"c{n}", command="ls") for n in range(40)]
    )
    factors = message_factors(part, [], decays=True)

    assert factors[0] > 6
    assert factors[80] > 6
    assert factors[2] < 2


def test_lines_of_files_come_before_other_facts_up_to_their_share():
    newest = Candidate(((fact(FactKind.SLICE, "a.py: " + "x = 1 " * 20, 3),),))
    older = Candidate(((fact(FactKind.SLICE, "b.py: " + "y = 2 " * 20, 1),),))

    lines, gone = fill_room(60, newest, older, TELLS)

    assert lines[0].startswith("a.py: ")
    assert [line[:4] for line in gone] == ["b.py"]
