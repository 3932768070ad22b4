import pytest

from slo.policies.stream_continuation import StreamContinuation, continuations_allowed
from tests.slo.policies.policy_files import mistakes, read_policies

ALL = StreamContinuation(name="all", max_continuations=2)
LEGAL = StreamContinuation(name="legal", feature="legal", max_continuations=0)
ACME = StreamContinuation(name="acme", team="acme", max_continuations=5)


def rules(table: str) -> tuple[StreamContinuation, ...]:
    return read_policies(f"[[stream_continuation]]\n{table}").stream_continuation


def test_a_rule_continues_every_stream_once_unless_it_says_otherwise():
    assert rules('name = "all"') == (StreamContinuation(name="all", max_continuations=1),)
    assert rules('name = "a"\nteam = "acme"\nfeature = ""\nmax_continuations = 0') == (
        StreamContinuation(name="a", team="acme", feature="", max_continuations=0),
    )


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ('name = "a"\nmax_continuations = -1', "is -1; write a number from 0"),
        ('name = "a"\nmax_continuations = 6', "is 6; write a number from 0"),
        ('name = "a"\nmax_continuations = true', "is true; write a number from 0"),
        ('name = "a"\nteam = ""', "stream_continuation.a.team: is empty"),
        ("max_continuations = 1", "name: is missing"),
    ],
)
def test_mistakes_in_a_rule_of_continuation_are_named_with_their_fix(table, problem):
    (mistake,) = mistakes(f"[[stream_continuation]]\n{table}")

    assert problem in mistake


@pytest.mark.parametrize(
    ("team", "feature", "expected"),
    [("acme", "chat", 2), ("other", "chat", 2), ("acme", "legal", 0), ("other", "legal", 0)],
)
def test_the_lowest_count_of_all_rules_about_a_stream_holds(team, feature, expected):
    assert continuations_allowed([ALL, LEGAL, ACME], team, feature) == expected


def test_a_stream_that_no_rule_is_about_is_not_continued():
    assert continuations_allowed([LEGAL], "acme", "chat") == 0
    assert continuations_allowed([], "acme", "chat") == 0
