import time

import pytest

from compaction.facts.referring import Refers, refers


@pytest.mark.parametrize(
    ("answer", "leans"),
    [
        ("The second one.", Refers.CHOOSES),
        ("B", Refers.CHOOSES),
        ("2 please", Refers.CHOOSES),
        ("the cheaper", Refers.CHOOSES),
        ("Take the first, three nights.", Refers.CHOOSES),
        ("Yes", Refers.AGREES),
        ("do it", Refers.AGREES),
        ("It's due to a change of plan.", Refers.AGREES),
        ("Yes, with card 7447", Refers.NOT),
        ("I would like to fly from Rome to Paris in May", Refers.NOT),
        ("the first " * 20, Refers.NOT),
    ],
)
def test_short_answers_lean_on_what_they_answer(answer, leans):
    assert refers(answer) is leans


@pytest.mark.parametrize("piece", ["the ", "a ", "((", "the first", " "])
def test_no_answer_takes_long(piece):
    before = time.perf_counter()
    refers(piece * 100_000)

    assert time.perf_counter() - before < 1
