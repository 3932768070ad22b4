import pytest

from slo.policies.answer_cache import AnswerCachePolicy, answer_cache_of
from tests.slo.policies.policy_files import mistakes, read_policies

FAQ = AnswerCachePolicy(name="faq", team="acme", feature="faq", ttl=60.0)
ALL = AnswerCachePolicy(name="all")


def policies(table: str) -> tuple[AnswerCachePolicy, ...]:
    return read_policies(f"[[answer_cache]]\n{table}").answer_cache


def test_a_policy_covers_every_feature_for_an_hour_unless_it_says_otherwise():
    assert policies('name = "all"') == (ALL,)
    assert policies('name = "faq"\nteam = "acme"\nfeature = "faq"\nttl = "1m"') == (FAQ,)


def test_ignored_fields_are_paths_in_one_order():
    (policy,) = policies('name = "a"\nreusable = true\nignore_fields = ["user", "metadata.id"]')

    assert policy.ignore_fields == (("metadata", "id"), ("user",))
    assert policy.reusable


def test_share_of_wrong_answers_is_half_a_percent_unless_the_table_says_otherwise():
    (policy, lax) = policies(
        'name = "a"\nsimilar = true\n[[answer_cache]]\nname = "b"\nmax_wrong = "1%"'
    )

    assert (policy.max_wrong, lax.max_wrong) == (0.005, 0.01)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("ttl = '1h'", "name: is missing"),
        ('name = "a"\nteam = ""', "answer_cache.a.team: is empty"),
        ('name = "a"\nttl = "soon"', 'is the string "soon"; write a number and ms, s, m, h or d'),
        ('name = "a"\nttl = "0s"', 'ttl: is the string "0s"; write more than 0s'),
        ('name = "a"\nttl = "31d"', "at most 30d"),
        ('name = "a"\nignore_fields = ["a b"]', "ignore_fields: is no list of fields"),
        ('name = "a"\nignore_fields = ["a", "a"]', "is no list of fields"),
        ('name = "a"\nignore_fields = [1]', "is no list of fields"),
        ('name = "a"\nignore_fields = ["messages"]', "has messages, which makes two calls differ"),
        ('name = "a"\nmax_wrong = 0.5', 'write 0.1 % to 30 %, such as "0.5%"'),
        ('name = "a"\nignored = ["a"]', "ignored: is not known; did you mean ignore_fields"),
    ],
)
def test_mistakes_in_an_answer_cache_are_named_with_their_fix(table, problem):
    assert problem in mistakes(f"[[answer_cache]]\n{table}")[0]


@pytest.mark.parametrize(
    ("team", "feature", "expected"),
    [("acme", "faq", FAQ), ("acme", "chat", ALL), ("other", "faq", ALL)],
)
def test_the_first_policy_about_a_call_holds(team, feature, expected):
    assert answer_cache_of((FAQ, ALL), team, feature) == expected


def test_a_call_that_no_policy_is_about_is_answered_from_no_cache():
    assert answer_cache_of((FAQ,), "other", "faq") is None
