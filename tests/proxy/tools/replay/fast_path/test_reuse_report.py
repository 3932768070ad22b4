"""The report on kept answers: its sentence, its rows and its policies."""

import tomllib

import pytest
from msgspec import structs

from proxy.tools.replay.fast_path.graded_answers import GradedTotals
from proxy.tools.replay.fast_path.reuse_report import (
    graded_sentence,
    reuse_steps,
    reuse_summary,
    reused_rows,
)
from proxy.tools.replay.fast_path.reused_answers import EqualCalls, ReusedAnswers

CENT = 10_000_000
FAQ = ReusedAnswers(
    feature="faq", calls=200, repeating=100, hits=EqualCalls(40, 9 * CENT), equal=EqualCalls(60, 12)
)
CHAT = ReusedAnswers(feature="chat", calls=300)


def test_the_sentence_has_hits_money_and_the_ceiling():
    assert reuse_summary((FAQ, CHAT), 3_600.0) == (
        "Answer cache, ttl 1h: 40 of 500 calls (8.0 %) would be hits and save $0.0900 more;"
        " equal in all: 60 (12.0 %), $0.0000000120."
    )


def test_without_equal_calls_there_is_no_sentence_and_no_row():
    assert reuse_summary((CHAT,), 60.0) == ""
    assert [row.feature for row in reused_rows((FAQ, CHAT))] == ["faq"]


def test_a_feature_whose_hits_pay_gets_its_policy():
    ((nanos, step),) = reuse_steps((FAQ, CHAT), 60.0, CENT)

    assert nanos == 9 * CENT
    assert step.commands == (
        "[[answer_cache]]",
        'name = "reuse-1"',
        'feature = "faq"',
        'ttl = "1m"',
    )


def test_the_policy_of_a_declared_feature_declares_it_and_quotes_its_name():
    evil = ReusedAnswers(
        feature='a"\n\x1b', is_declared=True, calls=2, hits=EqualCalls(1, CENT), equal=FAQ.equal
    )

    ((_, step),) = reuse_steps((evil,), 3_600.0, 0)

    assert step.commands[2:] == ('feature = "a\\"\\u000a\\u001b"', "reusable = true")
    assert step.what.isprintable()


@pytest.mark.parametrize("feature", ["caf\u00e9 \U0001f600", "a\\b\x7f", "\u202e\U000e0041"])
def test_the_policy_of_any_feature_is_toml(feature: str):
    ((_, step),) = reuse_steps((structs.replace(FAQ, feature=feature),), 3_600.0, 0)

    (policy,) = tomllib.loads("\n".join(step.commands))["answer_cache"]
    assert policy["feature"] == feature
    assert step.what.isprintable()


def test_the_features_that_are_counted_together_get_no_policy():
    assert list(reuse_steps((structs.replace(FAQ, feature="(others)"),), 60.0, 0)) == []


def test_hits_of_little_worth_are_no_step():
    assert list(reuse_steps((FAQ,), 60.0, 9 * CENT)) == []


def test_graded_calls_are_told_beside_always_the_small_model():
    totals = GradedTotals(
        large="big",
        small="mini",
        calls=1_000,
        small_calls=400,
        compared_calls=100,
        lost=4,
        proved_loss=0.009,
        nanos=-CENT,
        always_lost=120,
        always_nanos=50 * CENT,
    )

    assert graded_sentence(totals) == (
        "Small model first, mini before big: 400 of 1,000 graded calls (40.0 %) would go there,"
        " costs $0.0100 more, comparisons of 10.0 % paid for; answers lost: 0.4 % of the calls, at"
        " most 0.9 % proved. Always mini: loses 12.0 %, saves $0.50."
    )
