import pytest

from slo.policies.drafts import DraftRule, drafting_model
from tests.slo.policies.policy_files import mistakes, read_policies

NONE = DraftRule(name="none", feature="legal", model="")
ACME = DraftRule(name="acme", team="acme", model="quick")
ALL = DraftRule(name="all", model="small")


def test_a_rule_names_a_model_for_every_team_and_feature_unless_it_says_otherwise():
    table = '[[drafts]]\nname = "all"\nmodel = "small"\n'
    assert read_policies(table).drafts == (DraftRule(name="all", model="small"),)
    table += '[[drafts]]\nname = "b"\nteam = "acme"\nfeature = "chat"\nmodel = "small"\n'
    assert read_policies(table).drafts[1] == DraftRule(
        name="b", team="acme", feature="chat", model="small"
    )


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ('name = "a"', "model: is missing; write model"),
        ('name = "a"\nmodel = 3', "model: is 3"),
        ('model = "small"', "name: is missing"),
    ],
)
def test_mistakes_in_a_draft_rule_are_named_with_their_fix(table, problem):
    (mistake,) = mistakes(f"[[drafts]]\n{table}")

    assert problem in mistake


@pytest.mark.parametrize(
    ("team", "feature", "model"),
    [("acme", "legal", ""), ("acme", "chat", "quick"), ("other", "chat", "small")],
)
def test_the_first_rule_about_a_call_names_its_drafting_model(team, feature, model):
    assert drafting_model([NONE, ACME, ALL], team, feature) == model


def test_calls_that_no_rule_is_about_have_no_draft():
    assert drafting_model([ACME], "other", "chat") == ""
