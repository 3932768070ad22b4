import pytest

from proxy.fast_path.small_first.answer_checks import AnswerCheck
from slo.policies.file import models
from slo.policies.small_first import CHECKS, SmallFirst, SmallFirstMode
from slo.toml.nodes import parse_toml
from tests.slo.policies.policy_files import mistakes, read_policies

TABLE = '[[small_first]]\nname = "a"\nsmall = "mini"\n'


def test_rule_has_defaults_for_all_but_its_name_and_small_model():
    assert read_policies(TABLE).small_first == (SmallFirst(name="a", small="mini"),)


def test_checks_of_small_answers_are_read():
    (rule,) = read_policies(
        f'{TABLE}checks = ["schema"]\nmin_margin = 1.5\npattern = "yes|no"'
    ).small_first

    assert (rule.checks, rule.min_margin, rule.pattern) == (("schema",), 1.5, "yes|no")


def test_a_cascade_has_any_of_the_checks():
    for check in (
        'check_url = "https://a.test"',
        'checks = ["finish"]',
        "min_margin = 1",
        'pattern = "yes"',
    ):
        (rule,) = read_policies(f'{TABLE}mode = "cascade"\n{check}').small_first
        assert rule.mode is SmallFirstMode.CASCADE


def test_a_service_of_ones_own_has_an_address_and_a_deadline():
    (rule,) = read_policies(
        f'{TABLE}check_url = "http://10.0.0.7:9000/v1/check?a=b"\ncheck_ms = 50'
    ).small_first

    assert (rule.check_url, rule.check_ms) == ("http://10.0.0.7:9000/v1/check?a=b", 50)


def test_every_check_of_answers_can_be_chosen():
    assert set(CHECKS) == set(AnswerCheck)


def test_shares_are_written_as_percentages():
    (rule,) = read_policies(
        f'{TABLE}max_loss = "0.5%"\njudged_share = "5%"\njudge_error = "20%"'
    ).small_first

    assert (rule.max_loss, rule.judged_share, rule.judge_error) == (0.005, 0.05, 0.2)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ('[[small_first]]\nname = "a"', "small_first.a.small: is missing"),
        (f'{TABLE}max_loss = "50%"', "small_first.a.max_loss: is"),
        (f"{TABLE}max_loss = 1", "write 0.1 % to 30 %"),
        (f'{TABLE}judged_share = "x%"', "small_first.a.judged_share: is"),
        (f"{TABLE}min_margin = -1", "write 0 to 100"),
        (f'{TABLE}mode = "cascade"', "small_first.a.mode: is a cascade without a check"),
        (f'{TABLE}check_url = "ftp://a.test"', "write an address without a user"),
        (f'{TABLE}check_url = "https://me:pw@a.test/"', "write an address without a user"),
        (f"{TABLE}check_ms = 0", "write 1 to 10,000 milliseconds"),
        (f'{TABLE}mode = "both"', "small_first.a.mode"),
        (f'{TABLE}checks = ["look"]', "small_first.a.checks"),
        (f'{TABLE}smal = "x"', "smal: is not known"),
    ],
)
def test_mistakes_in_a_rule_are_named_with_their_fix(table, problem):
    (mistake,) = mistakes(table)

    assert problem in mistake


@pytest.mark.parametrize(
    ("team", "feature", "applies"),
    [("acme", "chat", True), ("acme", "other", False), ("other", "chat", False)],
)
def test_rule_applies_to_calls_of_its_team_and_feature(team, feature, applies):
    rule = SmallFirst(name="a", team="acme", feature="chat", small="mini")

    assert rule.applies_to(team, feature) is applies


def test_models_of_a_rule_are_checked_against_the_catalog():
    top = parse_toml(f'{TABLE}judge = "large"', "policies.toml")

    assert [node.value for node in models(top)] == ["mini", "large"]
