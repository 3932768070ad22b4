"""The report on kept answers: its sentence, its rows and its policies."""

from proxy.tools.replay.reuse_report import reuse_steps, reuse_summary, reused_rows
from proxy.tools.replay.reused_answers import EqualCalls, ReusedAnswers

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

    assert step.commands[2:] == ('feature = "a\\"\\n\\u001b"', "reusable = true")
    assert step.what.isprintable()


def test_hits_of_little_worth_are_no_step():
    assert list(reuse_steps((FAQ,), 60.0, 9 * CENT)) == []
