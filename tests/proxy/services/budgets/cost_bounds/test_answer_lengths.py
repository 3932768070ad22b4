"""Tests of what is known of the lengths of answers, now and from before the start."""

from collections.abc import Iterable

import orjson
import pytest

from proxy.services.budgets.cost_bounds.answer_lengths import AnswerLengths, length_key
from proxy.services.budgets.cost_bounds.clamps import clamp_note
from proxy.store.errors import StoreError
from proxy.store.sql.ledger.last_answers import PastAnswer

LIMIT = 1_000
KEY = length_key("team_1", "chat", "m", LIMIT)


async def lengths_after(*answers: PastAnswer) -> AnswerLengths:
    async def last() -> Iterable[PastAnswer]:
        return answers

    lengths = AnswerLengths()
    await lengths.begin(last)
    return lengths


def an_answer(generated: int, notes: str = "[]", route: str = "one/m") -> PastAnswer:
    return PastAnswer("team_1", "chat", "m", route, generated, notes)


async def test_a_restart_goes_on_from_the_ledger_until_more_is_learned():
    lengths = await lengths_after(*[an_answer(30)] * 20, *[an_answer(900, route="two/other")] * 20)

    assert lengths.predict(KEY, LIMIT).likely in {30, 31}
    assert lengths.usual(length_key("team_1", "x", "m", LIMIT), LIMIT) in {30, 31}
    for _ in range(20):
        lengths.add(KEY, 10)
    assert lengths.predict(KEY, LIMIT).likely == 10


async def test_an_answer_that_the_ledger_says_was_cut_off_counts_as_longer():
    notes = orjson.dumps([clamp_note("max_tokens", 30, "c of $1 a call")]).decode()
    lengths = await lengths_after(*[an_answer(30, notes)] * 20)

    assert 115 < lengths.predict(KEY, LIMIT).likely < 125


async def test_without_the_ledger_nothing_is_known_of_lengths(caplog):
    async def last() -> Iterable[PastAnswer]:
        raise StoreError("away")

    lengths = AnswerLengths()
    await lengths.begin(last)

    assert lengths.predict(KEY, LIMIT).likely == LIMIT
    assert lengths.usual(KEY, LIMIT) is None
    assert "learned anew" in caplog.text


def test_calls_of_other_features_to_a_model_are_the_guess_for_a_new_feature():
    lengths = AnswerLengths()
    for _ in range(20):
        lengths.add(KEY, 10)
    guess = lengths.predict(length_key("team_2", "new", "m", LIMIT), LIMIT)

    assert (guess.likely, guess.is_guessed) == (10, True)
    assert not lengths.predict(KEY, LIMIT).is_guessed


@pytest.mark.parametrize(("long", "usual"), [(8, 10), (12, 900)])
def test_the_usual_length_is_that_which_nine_of_ten_answers_stay_within(long: int, usual: int):
    lengths = AnswerLengths()
    for length in [900] * long + [10] * (100 - long):
        lengths.add(KEY, length)
    learned = lengths.usual(KEY, LIMIT)

    assert learned is not None
    assert learned == pytest.approx(usual, rel=0.05)
