"""The room of a segment, and how it is met."""

import pytest

from compaction.facts.candidates import Candidate
from compaction.facts.fact import Fact, FactKind
from compaction.facts.fitting import Fitting
from compaction.facts.segment_fitting import SegmentFitter
from compaction.reading.token_estimate import estimate_tokens
from tests.compaction.facts.regions import Said, assistant, call_and_result, region, user

TALK: list[Said] = [
    user("Where is my order?"),
    call_and_result("find_order", '{"order_id": "#W1000", "state": "open"}', number=1),
    assistant("It is #W1000."),
]
SHELL: list[Said] = [
    user("Fix the bug in src/app.py."),
    call_and_result("bash", "total 8\nsrc/app.py\nsrc/lib.py\n" * 9, "a", command="ls -R"),
    call_and_result("bash", "ok", "d", command="python src/app.py"),
]


@pytest.mark.parametrize(
    ("turns", "share", "more"),
    [(TALK * 60, 0.75, 0), (SHELL * 40, 0.2, 150)],
    ids=["desk", "files"],
)
def test_room_without_a_target_is_three_quarters_of_records_or_a_fifth_of_files(turns, share, more):
    fitter = SegmentFitter(region(*turns), estimate_tokens)

    assert fitter._room_without_target == int(share * fitter._before) + more


@pytest.mark.parametrize(
    ("factor", "rooms"),
    [
        (1.5, [958, 401, 621]),
        (0.96, [958]),
        (0.95, [958, 979]),
    ],
    ids=["too long: less by a tenth more, then between", "3 % empty", "more than 3 % empty"],
)
def test_room_is_searched_between_what_was_too_small_and_too_large_up_to_three_percent(
    factor: float, rooms: list[int]
):
    tried: list[int] = []

    class Proportional(Fitting):
        def __init__(self) -> None:
            """Facts as long as the room, by a factor; one candidate is always gone."""

        def fill(self, room: float, least_pin: int) -> tuple[list[Fact], list[Candidate]]:
            tried.append(round(room))
            text = "x" * int(room * factor)
            fact = Fact(kind=FactKind.REPLY, text=text, turns=(1,), messages=(1,))
            return [fact], [Candidate(((fact,),))]

    SegmentFitter(region(user("Hi")), len)._fit(Proportional(), 1_000, 9)

    assert tried == rooms


@pytest.mark.parametrize(("tokens", "is_whole"), [(107, False), (108, True)])
def test_a_result_stands_whole_in_eight_characters_a_token(tokens: int, *, is_whole: bool):
    """Of 860 characters with the call's arguments."""
    view = call_and_result("bash", "so it went on " * 60, command="run x")
    fitter = SegmentFitter(region(user("Look"), view), estimate_tokens)
    facts = [fact for one in fitter._commands(tokens) for forms in one.variants for fact in forms]

    assert any(fact.text.count("so it went on") == 60 for fact in facts) == is_whole
