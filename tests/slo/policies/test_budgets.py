import re
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.budgets.budget import Budget, BudgetUnit, HoldPolicy, OnStoreLoss, UnpricedPolicy
from slo.policies.entries import MAX_ENTRIES
from slo.policies.file import Policies
from slo.toml.problems import MAX_PROBLEMS_SHOWN, InvalidFile, Problem
from slo.window import Window
from tests.slo.policies.policy_files import mistakes, read_policies, with_entries

SHORT = '[[budgets]]\nname = "b"\nscope = "team"\nunit = "usd"\nwindow = "month"\nlimit = "500"\n'
with_ = partial(with_entries, SHORT)


def test_a_whole_budget_is_read_as_it_is_written() -> None:
    text = """
    [[budgets]]
    name = "assistants-month"
    scope = "label:project"
    of = "search"
    unit = "usd"
    window = "hour"
    limit = "12.50"
    hard = true
    hold = "worst"
    on_loss = "local_quota"
    alerts = [10, 100]
    """
    assert read_policies(text).budgets == (
        Budget(
            name="assistants-month",
            scope="label:project",
            of="search",
            unit=BudgetUnit.USD,
            window=Window.HOUR,
            limit=12_500_000_000,
            hard=True,
            hold=HoldPolicy.WORST,
            on_loss=OnStoreLoss.LOCAL_QUOTA,
            alerts=(10, 100),
        ),
    )


def test_a_short_budget_is_everyone_s_hard_and_closed_on_loss() -> None:
    (budget,) = read_policies(SHORT).budgets
    assert (budget.of, budget.hard, budget.hold) == ("*", True, HoldPolicy.P95)
    assert (budget.on_loss, budget.alerts) == (OnStoreLoss.CLOSED, (50, 80, 95))
    assert budget.limit == 500_000_000_000


def test_a_soft_budget_lets_calls_pass_on_loss() -> None:
    (budget,) = read_policies(with_(hard="false")).budgets
    assert (budget.hard, budget.on_loss) == (False, OnStoreLoss.OPEN)


def test_budgets_keep_their_order_and_no_file_is_no_promise() -> None:
    names = [budget.name for budget in read_policies(SHORT + with_(name='"a"')).budgets]
    assert names == ["b", "a"]
    assert read_policies("") == Policies()


@pytest.mark.parametrize(
    ("unit", "written", "limit"),
    [
        ("usd", "500", 500_000_000_000),
        ("usd", '"0.000000001"', 1),
        ("usd", '"9007199.254740991"', 2**53 - 1),
        ("tokens", "1_000_000", 1_000_000),
        ("requests", "60", 60),
    ],
)
def test_a_limit_is_exact(unit: str, written: str, limit: int) -> None:
    (budget,) = read_policies(with_(unit=f'"{unit}"', limit=written)).budgets
    assert budget.limit == limit


def test_calls_that_name_no_feature_can_have_a_budget_of_their_own() -> None:
    (budget,) = read_policies(with_(scope='"feature"', of='""')).budgets
    assert budget.of == ""


@pytest.mark.parametrize(
    ("key", "written", "line", "problem"),
    [
        ("name", "", 1, 'budgets[0].name: is missing; write name = "assistants-month", or another'),
        ("name", '"a b"', 2, 'budgets[0].name: is the string "a b"; write up to 64 letters, digit'),
        ("name", "3", 2, 'budgets[0].name: is 3; write name = "assistants-month"'),
        ("scope", '"teem"', 3, 'budgets.b.scope: names "teem", which is not known; did you mean t'),
        ("scope", '"label:"', 3, 'budgets.b.scope: is the string "label:"; name the label: "label'),
        ("scope", "[]", 3, 'budgets.b.scope: is an array; write scope = "team"'),
        ("scope", '"organization"\nof = "acme"', 4, "budgets.b.of: picks one organization, and th"),
        ("of", '""', 7, 'budgets.b.of: is empty, and every call has a team; write a name, or "*"'),
        ("of", "{}", 7, 'budgets.b.of: is a table; write of = "*"'),
        ("of", f'"{"x" * 257}"', 7, "budgets.b.of: is too long; write 256 characters at most"),
        ("unit", "", 1, "budgets.b.unit: is missing; write one of usd, tokens, requests"),
        ("unit", '"euros"', 4, 'budgets.b.unit: names "euros", which is not known; known are: usd'),
        ("window", '"week"', 5, 'budgets.b.window: names "week", which is not known; known are: m'),
        ("limit", "", 1, 'budgets.b.limit: is missing; write limit = "500" for dollars'),
        ("limit", "12.50", 6, "budgets.b.limit: is 12.50; write dollars of at most 9 decimals as "),
        ("limit", '"$1,000"', 6, 'budgets.b.limit: is the string "$1,000"; write dollars of at mo'),
        ("limit", '"0.0000000001"', 6, 'budgets.b.limit: is the string "0.0000000001"; write dol'),
        ("limit", "0", 6, "budgets.b.limit: is 0; write more than 0, and at most 9,007,199 dollar"),
        ("limit", "true", 6, "budgets.b.limit: is true; write dollars of at most 9 decimals as a "),
        ("limit", '"9007199.254740992"', 6, 'budgets.b.limit: is the string "9007199.254740992"; '),
        ("hard", '"yes"', 7, 'budgets.b.hard: is the string "yes"; write true or false'),
        ("hold", '"p59"', 7, 'budgets.b.hold: names "p59", which is not known; did you mean p95?'),
        ("on_loss", '"shut"', 7, 'budgets.b.on_loss: names "shut", which is not known; known are:'),
        ("alerts", "[80, 50]", 7, "budgets.b.alerts: is no list of percents; write up to 10 perce"),
        ("alerts", "[101]", 7, "budgets.b.alerts: is no list of percents; write up to 10 percents"),
        ("alerts", "[true]", 7, "budgets.b.alerts: is no list of percents; write up to 10 percent"),
        ("alerts", "50", 7, "budgets.b.alerts: is 50; write an [ array ]"),
        ("limits", "5", 7, "budgets.b.limits: is not known; did you mean limit?"),
    ],
)
def test_mistake_is_reported_with_its_line_and_its_fix(
    key: str, written: str, line: int, problem: str
) -> None:
    (mistake,) = mistakes(with_(**{key: written}))
    assert mistake.startswith(f"policies.toml:{line}: {problem}")


def test_a_limit_of_tokens_is_a_whole_number_of_more_than_0() -> None:
    for written, fix in (
        ('"60"', "write a whole number"),
        ("-1", "write more than 0, and at mos"),
    ):
        (mistake,) = mistakes(with_(unit='"tokens"', limit=written))
        assert f"; {fix}" in mistake


def test_budget_keys_that_contradict_each_other_are_a_mistake() -> None:
    (loss,) = mistakes(with_(hard="false", on_loss='"closed"'))
    assert "on_loss: refuses calls, and the budget is not hard; write hard = true" in loss
    (hold,) = mistakes(with_(unit='"requests"', limit="60", hold='"worst"'))
    assert "hold: says nothing of requests, which count 1 each; leave it out" in hold


def test_unpriced_is_allowed_only_in_hard_dollar_budgets() -> None:
    assert read_policies(SHORT).budgets[0].unpriced is UnpricedPolicy.OWN
    assert read_policies(with_(unpriced='"refuse"')).budgets[0].unpriced is UnpricedPolicy.REFUSE
    for fields in ({"hard": "false"}, {"unit": '"tokens"', "limit": "60"}):
        (mistake,) = mistakes(with_(unpriced='"allow"', **fields))
        assert "unpriced: says nothing but of hard dollars; leave it out" in mistake


def test_a_name_that_is_used_twice_is_a_mistake_of_the_second() -> None:
    (mistake,) = mistakes(SHORT + "\n" + SHORT)
    assert mistake.startswith("policies.toml:9: budgets.b.name: names a second budget; ")


def test_every_mistake_of_a_file_is_reported_by_line() -> None:
    problems = mistakes('budget = 3\n[[budgets]]\nhard = 1\n[[budgets]]\nname = "b"\n')
    lines = [int(problem.split(":")[1]) for problem in problems]
    assert lines == sorted(lines)
    assert problems[0] == "policies.toml:1: budget: is not known; did you mean budgets?"
    missing = {problem.split(": ")[1] for problem in problems if "is missing" in problem}
    assert {"budgets[0].name", "budgets[0].scope", "budgets.b.limit"} <= missing
    assert len(missing) == 9


@pytest.mark.parametrize("text", ["budgets = 3", "budgets = [3]", "[budgets]\na = 1"])
def test_a_value_that_is_no_list_of_tables_is_reported(text: str) -> None:
    problems = mistakes(text)
    assert re.match(r"policies.toml:\d: budgets(\[0\])?: is (3|a table); write", problems[0])


def test_a_text_that_is_no_toml_is_for_who_parses_it() -> None:
    with pytest.raises(InvalidFile, match=r"policies.toml:2: is not TOML"):
        read_policies("[[budgets]]\nname = \n")


def test_file_and_the_report_of_its_mistakes_are_bounded() -> None:
    many = "".join(with_(name=f'"b{i}"') for i in range(MAX_ENTRIES + 1))
    (problem,) = mistakes(many)
    assert problem == "policies.toml:6001: budgets: are over 1,000; merge some"
    several = mistakes("[[budgets]]\n" * 200)
    assert len(several) == MAX_PROBLEMS_SHOWN + 1
    assert several[-1] == f"and {200 * 5 - MAX_PROBLEMS_SHOWN} more"
    (told_once,) = mistakes(with_(scope='"' + "x" * 200 + '"'))
    assert len(told_once) < 200


KEYS = st.sampled_from(
    ["name", "scope", "of", "unit", "window", "limit", "hard", "hold", "on_loss", "alerts", "x"]
)
VALUES = st.one_of(
    st.integers(-5, 5).map(str),
    st.sampled_from(
        ["true", "2.5", "[]", "{}", "[50]", "[[]]", "1979-05-27", "nan", "inf", "07:32:00"]
    ),
    st.sampled_from(["a", "team", "label:a", "usd", "month", "p95", "open", "*", "", "1.5"]).map(
        lambda text: f'"{text}"'
    ),
)


@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=11), max_size=3))
def test_any_file_is_either_read_or_reported_with_its_mistakes(
    tables: list[dict[str, str]],
) -> None:
    text = "".join(
        "[[budgets]]\n" + "".join(f"{key} = {value}\n" for key, value in table.items())
        for table in tables
    )
    budgets: tuple[Budget, ...] = ()
    problems: tuple[Problem, ...] = ()
    try:
        budgets = read_policies(text).budgets
    except InvalidFile as bad:
        problems = bad.problems
    assert len(budgets) == (0 if problems else len(tables))
    assert all(budget.limit >= 1 and budget.name for budget in budgets)
    assert all(1 <= mistake.line <= text.count("\n") + 1 for mistake in problems)
    assert all(mistake.where and mistake.fix for mistake in problems)
