import pytest

from slo.policies.residency import Residency, bound_regions
from tests.slo.policies.policy_files import mistakes, read_policies

EUROPE = Residency(name="europe", team="acme", regions=frozenset({"eu", "uk"}))
UNION = Residency(name="union", regions=frozenset({"eu", "us"}))
HEALTH = Residency(name="health", feature="health", regions=frozenset({"ch"}))


def rules(table: str) -> tuple[Residency, ...]:
    return read_policies(f"[[residency]]\n{table}").residency


def test_a_rule_binds_all_calls_unless_it_names_a_team_or_a_feature():
    assert rules('name = "all"\nregions = ["eu"]') == (
        Residency(name="all", regions=frozenset({"eu"})),
    )
    assert rules('name = "a"\nteam = "acme"\nfeature = ""\nregions = ["eu", "uk"]') == (
        Residency(name="a", team="acme", feature="", regions=frozenset({"eu", "uk"})),
    )


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ('name = "a"', "residency.a.regions: is missing; write regions"),
        ('name = "a"\nregions = []', "lists 0"),
        ('name = "a"\nregions = [""]', "has one without a name"),
        ('name = "a"\nregions = [1]', "is 1; write regions"),
        ('name = "a"\nteam = ""\nregions = ["eu"]', "residency.a.team: is empty"),
        ('regions = ["eu"]', "name: is missing"),
        ('name = "a"\nregion = "eu"\nregions = ["eu"]', "region: is not known; did you mean reg"),
    ],
)
def test_mistakes_in_a_rule_are_named_with_their_fix(table, problem):
    (mistake,) = mistakes(f"[[residency]]\n{table}")

    assert problem in mistake


@pytest.mark.parametrize(
    ("team", "feature", "expected"),
    [
        ("acme", "chat", ({"eu"}, "europe, union")),
        ("other", "chat", ({"eu", "us"}, "union")),
        ("acme", "health", (set(), "europe, union, health")),
    ],
)
def test_all_rules_that_are_about_a_call_bind_it_together(team, feature, expected):
    assert bound_regions([EUROPE, UNION, HEALTH], team, feature) == expected


def test_a_call_that_no_rule_is_about_may_go_anywhere():
    assert bound_regions([EUROPE], "other", "chat") == (None, "")
