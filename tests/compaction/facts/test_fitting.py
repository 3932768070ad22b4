import pytest

from compaction.facts.candidates import Candidate, CandidatePin
from compaction.facts.fact import Fact, FactKind
from compaction.facts.fitting import Fitting
from compaction.facts.message_worth import message_factors, region_words
from tests.compaction.facts.regions import assistant, read_contents, texts, user

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
    others = [
        Candidate(((fact(FactKind.ACTION, f"pay(to=W-47{n}, by=card) → ok", 3),),))
        for n in (12, 13)
    ]

    stands, gone = fill_room(19, PAID, *others, FAILED)

    assert "pay(…) → error: no" in stands
    assert [line[-4:] for line in gone] == ["→ ok", "→ ok"]


def test_no_success_stands_where_a_failure_had_no_room():
    assert fill_room(17, PAID, FAILED)[0] == []


def test_rules_and_failures_must_stand_at_least_length():
    factors = message_factors(PART, [], decays=False)
    fitting = Fitting([RULE, TELLS, FAILED, PAID], region_words(PART), factors, len)

    assert texts(fitting.least_facts()) == ["Never pay twice.", "pay(…) → error: no"]


def test_a_fitting_gives_the_same_however_often_it_is_filled():
    assert fill_room(12, EMPTY, TELLS) == fill_room(12, EMPTY, TELLS)


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


def test_lines_of_files_come_before_other_facts_up_to_their_share():
    newest = Candidate(((fact(FactKind.SLICE, "a.py: " + "x = 1 " * 20, 3),),))
    older = Candidate(((fact(FactKind.SLICE, "b.py: " + "y = 2 " * 20, 1),),))

    lines, gone = fill_room(60, newest, older, TELLS)

    assert lines[0].startswith("a.py: ")
    assert [line[:4] for line in gone] == ["b.py"]


def test_small_sentences_do_not_keep_a_worthier_one_out_of_a_small_room():
    told = "The Sugar Loft shows comedies at 14:30 in Mill Lane, led by Maud Pickering."
    small = [Candidate(((fact(FactKind.REPLY, f"{n}7 €.", 3),),)) for n in range(3)]
    large = Candidate(((fact(FactKind.REPLY, told, 2),),))

    assert fill_room(21, *small, large)[0] == [told]


def record(text: str, *shorter: str) -> Candidate:
    return Candidate(tuple([(fact(FactKind.RECORD, line, 2),) for line in (text, *shorter)]))


def test_record_stands_whole_where_its_short_form_and_a_dense_one_are_worth_less():
    whole = "find(id=W-4711) → in Oslo from 2026-05-03 on, D-88 E-99 F-77 G-66 H-55 I-44"
    order = record(whole, "find(id=W-4711) → …")

    assert fill_room(21, record("get(id=A-11) → Z-10"), order)[0] == [whole]


def test_record_among_many_candidates_is_not_tried_whole_before_them():
    whole = "find(id=W-4711) → in Oslo from 2026-05-03 on, D-88 E-99 F-77 G-66 H-55 I-44"
    others = [record(f"get(id=A-{n}{n}) → Z-{n}0") for n in range(200)]

    assert whole not in fill_room(21, *others, record(whole, "find(id=W-4711) → …"))[0]
