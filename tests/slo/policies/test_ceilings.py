from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.budgets.budget import UnpricedPolicy
from slo.budgets.ceiling import Ceiling, CeilingStep
from slo.toml.problems import InvalidFile
from tests.slo.policies.policy_files import mistakes, read_policies, with_entries

SHORT = '[[ceilings]]\nname = "c"\nlimit = "0.05"\n'
with_ = partial(with_entries, SHORT)


def test_a_whole_ceiling_is_read_as_it_is_written():
    text = """
    [[ceilings]]
    name = "suggestions"
    team = "acme"
    feature = "suggest"
    limit = "0.01"
    on_exceed = ["cheaper", "refuse"]
    cheaper = ["a", "b"]
    unpriced = "allow"
    """
    assert read_policies(text).ceilings == (
        Ceiling(
            name="suggestions",
            team="acme",
            feature="suggest",
            limit=10_000_000,
            on_exceed=(CeilingStep.CHEAPER, CeilingStep.REFUSE),
            cheaper=("a", "b"),
            unpriced=UnpricedPolicy.ALLOW,
        ),
    )


def test_a_short_ceiling_is_over_every_call_and_takes_every_step():
    (ceiling,) = read_policies(SHORT).ceilings

    assert (ceiling.team, ceiling.feature, ceiling.cheaper) == ("*", "*", ())
    assert ceiling.on_exceed == (CeilingStep.CLAMP, CeilingStep.CHEAPER, CeilingStep.REFUSE)
    assert (ceiling.limit, ceiling.unpriced) == (50_000_000, UnpricedPolicy.OWN)


def test_a_ceiling_may_only_measure_and_be_over_calls_that_name_no_feature():
    (ceiling,) = read_policies(with_(on_exceed="[]", feature='""')).ceilings

    assert (ceiling.on_exceed, ceiling.feature) == ((), "")


@pytest.mark.parametrize(
    ("key", "written", "line", "problem"),
    [
        ("name", "", 1, 'ceilings[0].name: is missing; write name = "suggestions", or another'),
        ("team", '""', 4, "ceilings.c.team: is empty, and every call has a team; write a name"),
        ("team", "3", 4, 'ceilings.c.team: is 3; write team = "*"'),
        ("feature", "[]", 4, 'ceilings.c.feature: is an array; write feature = "*"'),
        ("limit", "", 1, 'ceilings.c.limit: is missing; write limit = "0.05" for five cents a'),
        ("limit", "0.05", 3, "ceilings.c.limit: is 0.05; write dollars of at most 9 decimals as a"),
        ("limit", '"$3"', 3, 'ceilings.c.limit: is the string "$3"; write dollars of at most 9 de'),
        ("limit", '"x"', 3, 'ceilings.c.limit: is the string "x"; write dollars of at most 9 deci'),
        ("limit", "0", 3, "ceilings.c.limit: is 0; write more than 0, and at most 9,007,199 dol"),
        ("on_exceed", '"clamp"', 4, 'ceilings.c.on_exceed: is the string "clamp"; write an [ arr'),
        ("on_exceed", '["clmp"]', 4, 'ceilings.c.on_exceed[0]: names "clmp", which is not known; '),
        ("on_exceed", "[3]", 4, "ceilings.c.on_exceed[0]: is 3; write one of clamp, cheaper, refu"),
        ("on_exceed", '["clamp", "clamp"]', 4, "ceilings.c.on_exceed: holds clamp twice; take one"),
        ("on_exceed", '["refuse", "clamp"]', 4, "ceilings.c.on_exceed: goes on after refuse; let "),
        ("on_exceed", '["cheaper"]', 1, "ceilings.c.cheaper: is missing, and on_exceed says cheap"),
        ("cheaper", '"a"', 4, 'ceilings.c.cheaper: is the string "a"; write an [ array ]'),
        ("cheaper", '["a", "a"]', 4, "ceilings.c.cheaper: is no list of models; write up to 10"),
        ("cheaper", "[3]", 4, "ceilings.c.cheaper: is no list of models; write up to 10 names of"),
        ("cheaper", '["a"]\non_exceed = ["clamp"]', 4, "ceilings.c.cheaper: is never used: on_exc"),
        ("unpriced", '"alow"', 4, 'ceilings.c.unpriced: names "alow", which is not known; did you'),
        ("limits", "5", 4, "ceilings.c.limits: is not known; did you mean limit?"),
    ],
)
def test_mistake_is_reported_with_its_line_and_its_fix(key, written, line, problem):
    (mistake,) = mistakes(with_(**{key: written}))

    assert mistake.startswith(f"policies.toml:{line}: {problem}")


def test_a_name_that_is_used_twice_is_a_mistake_of_the_second():
    (mistake,) = mistakes(SHORT + "\n" + SHORT)

    assert mistake.startswith("policies.toml:6: ceilings.c.name: names a second ceiling; ")


KEYS = st.sampled_from(
    ["name", "team", "feature", "limit", "on_exceed", "cheaper", "unpriced", "x"]
)
VALUES = st.one_of(
    st.integers(-5, 5).map(str),
    st.sampled_from(["true", "2.5", "[]", "{}", '["clamp"]', '["refuse", "x"]', "[[]]", "inf"]),
    st.sampled_from(["a", "own", "*", "", "1.5"]).map(lambda text: f'"{text}"'),
)


@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=8), max_size=3))
def test_any_file_is_either_read_or_reported_with_its_mistakes(tables):
    text = "".join(
        "[[ceilings]]\n" + "".join(f"{key} = {value}\n" for key, value in table.items())
        for table in tables
    )
    ceilings: tuple[Ceiling, ...] = ()
    is_told = False
    try:
        ceilings = read_policies(text).ceilings
    except InvalidFile as bad:
        is_told = all(problem.where and problem.fix for problem in bad.problems)
    assert len(ceilings) == (0 if is_told else len(tables))
    assert all(ceiling.limit >= 1 and ceiling.name for ceiling in ceilings)
