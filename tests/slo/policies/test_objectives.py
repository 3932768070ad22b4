from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.alert import Severity
from slo.budgets.stages import Stage, StageBudget
from slo.objectives.objective import BurnAlert, Enforce, Metric, Objective, RequestKind
from slo.policies.objectives import FIELDS
from slo.toml.fields import keys
from slo.toml.problems import InvalidFile
from tests.slo.policies import policy_files
from tests.slo.policies.policy_files import read_policies

TTFT = 'name = "o"\nmetric = "ttft"\np = 95\nunder = "500ms"\n'
COST = 'name = "o"\nmetric = "cost"\np = 99\nunder = "0.05"\n'
ERRORS = 'name = "o"\nmetric = "errors"\nat_most = "1%"\n'
CACHE = 'name = "o"\nmetric = "cache"\nfloor = 0.7\n'


def read_objectives(*tables: str) -> tuple[Objective, ...]:
    text = "".join(f"[[objectives]]\n{table}" for table in tables)
    return read_policies(text).objectives


def one(table: str) -> Objective:
    (objective,) = read_objectives(table)
    return objective


def mistakes(table: str) -> list[str]:
    problems = policy_files.mistakes(f"[[objectives]]\n{table}")
    return [problem.removeprefix("policies.toml:") for problem in problems]


def test_a_whole_objective_is_read_as_it_is_written() -> None:
    table = """
    name = "chat-ttft"
    team = "acme"
    feature = "chat"
    metric = "ttft"
    p = 99.5
    under = "500ms"
    calls = "all"
    enforce = "degrade"
    ladder = ["elsewhere", "gpt-small", "shed"]
    alert_at = [{ burn = 6, over = "30m" }, { burn = 1.5, over = "3d", severity = "ticket" }]
    """
    assert one(table) == Objective(
        name="chat-ttft",
        team="acme",
        feature="chat",
        calls=RequestKind.ALL,
        metric=Metric.TTFT,
        target=0.995,
        under=0.5,
        enforce=Enforce.DEGRADE,
        ladder=("elsewhere", "gpt-small", "shed"),
        alerts=(
            BurnAlert(burn=6, over=1800, severity=Severity.PAGE),
            BurnAlert(burn=1.5, over=259_200, severity=Severity.TICKET),
        ),
    )


def test_short_ones_are_about_every_call_and_only_alert() -> None:
    common = {"team": "*", "feature": "*", "enforce": Enforce.ALERT, "ladder": (), "alerts": ()}
    tables = (TTFT, COST.replace('"o"', '"p"'), ERRORS.replace('"o"', '"q"'))
    ttft, cost, errors = read_objectives(*tables)
    for objective in (ttft, cost, errors):
        assert {key: getattr(objective, key) for key in common} == common
    assert (ttft.calls, ttft.target, ttft.under) == (RequestKind.STREAMS, 0.95, 0.5)
    assert (cost.calls, cost.target, cost.under_nanos) == (RequestKind.ALL, 0.99, 50_000_000)
    assert (errors.calls, errors.target) == (RequestKind.ALL, 0.99)


@pytest.mark.parametrize(
    ("written", "target"), [("0.7", 0.7), ('"70%"', 0.7), ('"70.5%"', 0.705), ("0.01", 0.01)]
)
def test_a_floor_is_a_share_or_percents(written: str, target: float) -> None:
    objective = one(CACHE.replace("0.7", written) + "clear = 0.9\nmin_prompt = 4096\n")
    assert (objective.target, objective.clear, objective.min_prompt) == (target, 0.9, 4096)


def test_floor_without_clear_has_the_usual_upper_edge() -> None:
    assert (one(CACHE).clear, one(CACHE).min_prompt) == (None, 1024)


@pytest.mark.parametrize(
    ("written", "target"), [('"1%"', 0.99), ('"0.1%"', 0.999), ("0.05", 0.95), ('"99%"', 0.01)]
)
def test_errors_are_at_most_a_share_or_percents(written: str, target: float) -> None:
    assert one(ERRORS.replace('"1%"', written)).target == target


def test_to_shed_needs_no_ladder_and_to_observe_may_have_one() -> None:
    assert one(ERRORS + 'enforce = "shed"\n').ladder == ("shed",)
    assert one(ERRORS + 'enforce = "observe"\nladder = ["small"]\n').ladder == ("small",)


def test_calls_that_name_no_feature_can_have_an_objective_of_their_own() -> None:
    assert one(ERRORS + 'feature = ""\n').feature == ""


def alert(table: str) -> str:
    return f"{ERRORS}alert_at = [{table}]\n"


MEND_TIME = 'write a number and ms, s, m, h or d: under = "500ms"'
MEND_COST = 'write dollars above 0 of at most 9 decimals as a string: under = "0.05"'
P = "from 1 to 99.999 percent"


@pytest.mark.parametrize(
    ("table", "line", "problem"),
    [
        (
            TTFT.replace('"ttft"', '"tfft"'),
            3,
            'o.metric: names "tfft", which is not known; did you mea',
        ),
        (TTFT.replace('metric = "ttft"\n', ""), 1, "o.metric: is missing; write one of ttft"),
        (TTFT.replace("p = 95\n", ""), 1, "o.p: is missing; write p = 95"),
        (TTFT.replace("95", '"95"'), 4, 'o.p: is the string "95"; write p = 95'),
        (TTFT.replace("95", "true"), 4, "o.p: is true; write p = 95"),
        (TTFT.replace("95", "nan"), 4, "o.p: is NaN; write p = 95"),
        (TTFT.replace("95", "1e400"), 4, "o.p: is 1E+400; write p = 95"),
        (TTFT.replace("95", '"x%"'), 4, 'o.p: is the string "x%"; write p = 95'),
        (TTFT.replace("95", "0.95"), 4, "o.p: is nearer to nothing or to all than can be"),
        (TTFT.replace("95", "100"), 4, "o.p: leaves nothing to go wrong, so one bad"),
        (TTFT.replace("95", "0"), 4, f"o.p: is kept whatever happens; write {P}"),
        (TTFT.replace('"500ms"', "500"), 5, f"o.under: is 500; {MEND_TIME}"),
        (TTFT.replace("500ms", "0s"), 5, "o.under: is above a day, or nothing; write under"),
        (TTFT.replace("500ms", "1w"), 5, f'o.under: is the string "1w"; {MEND_TIME}'),
        (TTFT.replace('under = "500ms"\n', ""), 1, 'o.under: is missing; write under = "500ms"'),
        (COST.replace('"0.05"', "0.05"), 5, f"o.under: is 0.05; {MEND_COST}"),
        (COST.replace('"0.05"', "0"), 5, f"o.under: is 0; {MEND_COST}"),
        (COST.replace("0.05", "9999999"), 5, f'o.under: is the string "9999999"; {MEND_COST}'),
        (COST.replace('under = "0.05"\n', ""), 1, "o.under: is missing; write dollars as a string"),
        (ERRORS.replace('at_most = "1%"\n', ""), 1, 'o.at_most: is missing; write at_most = "1%"'),
        (ERRORS.replace('"1%"', "1"), 4, "o.at_most: is kept whatever happens; write from 0.001"),
        (ERRORS.replace('"1%"', '"1"'), 4, 'o.at_most: is the string "1"; write at_most = "1%"'),
        (ERRORS + 'under = "1s"\n', 5, "o.under: says nothing of errors; leave it out"),
        (ERRORS + "floor = 0.7\n", 5, "o.floor: says nothing of errors; leave it out"),
        (ERRORS + "at_least = 1\n", 5, "o.at_least: is not known; did you mean at_most?"),
        (ERRORS + 'team = ""\n', 5, "o.team: is empty, and every call has a team; write a name"),
        (ERRORS + "team = 1\n", 5, 'o.team: is 1; write team = "*"'),
        (
            ERRORS + 'calls = "stream"\n',
            5,
            'o.calls: names "stream", which is not known; did you mean',
        ),
        (
            ERRORS + 'enforce = "page"\n',
            5,
            'o.enforce: names "page", which is not known; known are: observe',
        ),
        (ERRORS + 'enforce = "degrade"\n', 1, "o.ladder: is missing, and there is nothing"),
        (ERRORS + "ladder = 1\n", 5, "o.ladder: is 1; write an [ array ]"),
        (ERRORS + 'ladder = "shed"\nenforce = "shed"\n', 5, 'o.ladder: is the string "shed"'),
        (ERRORS + 'ladder = [""]\nenforce = "degrade"\n', 5, "o.ladder: has a level without"),
        (ERRORS + "ladder = [1]\n", 5, "o.ladder: has a level without a name"),
        (ERRORS + 'ladder = ["a", "a"]\n', 5, "o.ladder: has a level twice; name each once"),
        (CACHE.replace("0.7", "0"), 4, "o.floor: is kept whatever happens; write from 0.01"),
        (CACHE.replace("floor = 0.7\n", ""), 1, "o.floor: is missing; write floor = 0.70"),
        (CACHE + "clear = 0.7\n", 5, "o.clear: is not above the floor, which would be missed and"),
        (CACHE + 'clear = "x"\n', 5, 'o.clear: is the string "x"; write clear = 0.73'),
        (CACHE + "min_prompt = 0\n", 5, "o.min_prompt: is 0; write tokens, 1 or more"),
        (CACHE + "min_prompt = 0.5\n", 5, "o.min_prompt: is 0.5; write tokens, 1 or more"),
        (CACHE + 'enforce = "shed"\n', 5, "o.enforce: would change the model, whose cache then"),
        (CACHE + "alert_at = []\n", 5, "o.alert_at: says nothing of cache; leave it out"),
        (alert("1"), 5, "o.alert_at[0]: is 1; write a { table }"),
        (alert("{ burn = 6 }"), 5, 'o.alert_at[0].over: is missing; write over = "30m"'),
        (alert('{ over = "30m" }'), 5, "o.alert_at[0].burn: is missing; write burn = 6"),
        (alert('{ burn = "6", over = "30m" }'), 5, 'o.alert_at[0].burn: is the string "6"'),
        (alert('{ burn = 6, over = "30m", at = 1 }'), 5, "o.alert_at[0].at: is not known"),
        (alert('{ burn = 6, over = "1s" }'), 5, "o.alert_at[0].over: is no time that is"),
        (alert('{ burn = 6, over = "30m", severity = "x" }'), 5, "o.alert_at[0].severity"),
    ],
)  # fmt: skip
def test_every_mistake_in_an_objective_has_a_line_and_a_fix(
    table: str, line: int, problem: str
) -> None:
    assert mistakes(table)[0].startswith(f"{line}: objectives.{problem}")


def test_alert_that_can_never_come_is_reported_with_the_largest_burn() -> None:
    table = TTFT + 'alert_at = [\n  { burn = 6, over = "30m" },\n  { burn = 24, over = "1h" },\n]\n'
    assert mistakes(table) == [
        (
            "8: objectives.o.alert_at[1].burn: is 24, which can never come: where a share of 0.95"
            " is wanted, the largest possible burn is 20;"
            " write a burn from 1 to 20; usual are 6, 3, 1.5"
        )
    ]


def test_a_target_that_is_wrong_says_nothing_of_its_alerts() -> None:
    table = TTFT.replace("95", "100") + 'alert_at = [{ burn = 24, over = "1h" }]\n'
    assert len(mistakes(table)) == 1


@pytest.mark.parametrize(
    "table",
    [
        TTFT.replace("95", '"95"') + 'alert_at = [{ burn = 14, over = "1h" }]\n',
        CACHE.replace("0.7", '"0.7"') + "clear = 0.05\n",
    ],
)
def test_a_target_that_cannot_be_read_is_the_only_mistake(table: str) -> None:
    assert len(mistakes(table)) == 1


def test_unknown_metric_is_the_only_mistake() -> None:
    assert len(mistakes('name = "o"\nmetric = "speed"\np = 1000\n')) == 1


def test_alerts_are_not_without_number() -> None:
    alerts = ", ".join(['{ burn = 6, over = "30m" }'] * 11)
    assert mistakes(f"{ERRORS}alert_at = [{alerts}]\n") == [
        "5: objectives.o.alert_at: has over 10 alerts; leave some out"
    ]


VALUES = st.sampled_from(
    ['""', '"x"', "0", "-1", "0.5", "95", "1e999", "nan", "inf", "true", "[]", "{}", '["a"]',
     '"1%"', '"%"', '"nan%"', '"-5%"', '"5m"', "[{}]", "[1]", "2020-01-01", '"ttft"', '"cache"']
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(keys(FIELDS)), VALUES))
def test_any_objective_table_is_read_or_reported_as_invalid(fields: dict[str, str]) -> None:
    with suppress(InvalidFile):
        read_objectives("".join(f"{key} = {value}\n" for key, value in fields.items()))


def test_a_latency_objective_may_give_its_stages_parts_of_its_time() -> None:
    objective = one(f'{TTFT}stages = {{ prefill = "300ms", queue = "100ms" }}\n')

    assert objective.stages == (StageBudget(Stage.QUEUE, 0.1), StageBudget(Stage.PREFILL, 0.3))


@pytest.mark.parametrize("metric", ["queue", "prefill", "decode", "transfer"])
def test_a_stage_may_have_an_objective_of_its_own(metric: str) -> None:
    objective = one(f'name = "o"\nmetric = "{metric}"\np = 95\nunder = "100ms"\n')

    assert (objective.metric, objective.under, objective.calls) == (metric, 0.1, RequestKind.ALL)


@pytest.mark.parametrize(
    ("table", "mistake"),
    [
        (
            f'{TTFT}stages = {{ quue = "1ms" }}\n',
            "o.stages.quue: is not known; did you mean queue?",
        ),
        (f"{TTFT}stages = {{ queue = 1 }}\n", "o.stages.queue: is 1"),
        (f'{TTFT}stages = {{ decode = "1ms" }}\n', "o.stages: has decode, which comes after"),
        (f'{TTFT}stages = {{ queue = "1s" }}\n', "o.stages: gives queue more time than"),
        (f"{ERRORS}stages = {{}}\n", "o.stages: says nothing of errors"),
    ],
)
def test_a_wrong_stage_is_a_mistake_with_its_line(table: str, mistake: str) -> None:
    assert any(mistake in message for message in mistakes(table))
