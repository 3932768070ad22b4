import pytest

from slo.policies.contexts import ContextPolicy, LateRule
from tests.slo.policies.policy_files import mistakes, read_policies


def contexts(table: str) -> tuple[ContextPolicy, ...]:
    return read_policies(f"[[contexts]]\n{table}").contexts


def test_context_policy_is_for_every_team_and_fetches_nothing_unless_it_says_so():
    assert contexts('name = "all"') == (
        ContextPolicy(name="all", team="*", fetch=(), deadline_ms=300, late=LateRule.OMIT),
    )


def test_context_policy_names_team_addresses_deadline_and_rule():
    table = (
        'name = "a"\nteam = "acme"\nfetch = ["https://docs.example.com/guides/",'
        ' "http://10.0.0.7:8080/"]\ndeadline_ms = 10000\nlate = "refuse"'
    )

    (policy,) = contexts(table)

    assert policy.fetch == ("https://docs.example.com/guides/", "http://10.0.0.7:8080/")
    assert (policy.team, policy.deadline_ms, policy.late) == ("acme", 10_000, LateRule.REFUSE)


@pytest.mark.parametrize(
    "prefix",
    [
        "https://docs.example.com",
        "https://docs.example.com/guides",
        "https://docs.example.com/../",
        "https://user@docs.example.com/",
        "ftp://docs.example.com/",
        "https:///guides/",
        "https://docs.example.com/a?b=/",
    ],
)
def test_prefix_that_could_match_other_hosts_or_folders_is_refused(prefix):
    (mistake,) = mistakes(f'[[contexts]]\nname = "a"\nfetch = ["{prefix}"]')

    assert "is no address" in mistake or "which is no address that ends in a slash" in mistake


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("deadline_ms = 0", "deadline_ms: is 0; write 1 to 10,000 milliseconds"),
        ("deadline_ms = 10001", "deadline_ms: is 10001; write 1 to 10,000 milliseconds"),
        ('late = "never"', 'late: names "never", which is not known'),
        ("fetch = [7]", "is 7; write fetch"),
        (f"fetch = {['https://a.b/'] * 51}", "lists 51; write up to 50"),
    ],
)
def test_mistake_in_a_context_policy_is_named_with_its_fix(table, problem):
    (mistake,) = mistakes(f'[[contexts]]\nname = "a"\n{table}')

    assert problem in mistake
