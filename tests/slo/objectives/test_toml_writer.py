import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.objectives.objective import Enforce, Metric, Objective
from slo.objectives.toml_writer import dollars_text, objectives_toml, target_text
from slo.policies.file import read
from slo.toml.nodes import parse_toml
from tests.fakes.objectives import objective, objectives


@pytest.mark.slow
@given(st.lists(objectives(), max_size=3, unique_by=lambda drawn: drawn.name))
def test_written_policies_read_back_the_same(every: list[Objective]) -> None:
    assert read(parse_toml(objectives_toml(every), "policies.toml")).objectives == tuple(every)


def test_defaults_are_not_written() -> None:
    assert objectives_toml([objective(name="o", metric=Metric.ERRORS, target=0.99)]) == (
        '[[objectives]]\nname = "o"\nmetric = "errors"\nat_most = "1%"\n'
    )


def test_names_given_by_people_stay_text() -> None:
    named = objective(feature='"\n\x7f]', ladder=("ä", "é\\"), enforce=Enforce.DEGRADE)
    assert read(parse_toml(objectives_toml([named]), "x")).objectives == (named,)


@pytest.mark.parametrize(
    ("metric", "share", "text"),
    [
        (Metric.TTFT, 0.95, "95"),
        (Metric.TTFT, 0.9, "90"),
        (Metric.COST, 0.995, "99.5"),
        (Metric.TOTAL, 0.99999, "99.999"),
        (Metric.ERRORS, 0.99, '"1%"'),
        (Metric.ERRORS, 0.999, '"0.1%"'),
        (Metric.ERRORS, 0.9, '"10%"'),
        (Metric.CACHE, 0.7, "0.7"),
    ],
)
def test_target_is_written_as_policies_files_state_it(
    metric: Metric, share: float, text: str
) -> None:
    assert target_text(objective(metric=metric, target=share)) == text


def test_dollars_are_written_in_full() -> None:
    assert [dollars_text(n) for n in (1, 50_000_000, 10**10)] == ["0.000000001", "0.05", "10"]
