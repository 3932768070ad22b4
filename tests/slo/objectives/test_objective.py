import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.budgets.stages import Stage
from slo.objectives.objective import (
    CallMeasurements,
    Metric,
    Objective,
    ObjectiveIndex,
    RequestKind,
    classify_call,
    request_kind_text,
)
from tests.fakes.objectives import call_measurements, objective

GOOD, BAD = (1, 0), (0, 1)
TTFT = objective(metric=Metric.TTFT, under=0.5)
TOTAL = objective(metric=Metric.TOTAL, under=2.0)
ERRORS = objective(metric=Metric.ERRORS)
COST = objective(metric=Metric.COST, under_nanos=50_000_000)
CACHE = objective(metric=Metric.CACHE, target=0.7)


@pytest.mark.parametrize(
    ("call", "verdict"),
    [
        (call_measurements(ttft=0.5), GOOD),
        (call_measurements(ttft=0.5001), BAD),
        (call_measurements(ttft=0.4, total=60.0), GOOD),
        (call_measurements(ttft=0.4, total=60.0, hung_up=True), GOOD),
        (call_measurements(ttft=0.6, total=0.7, hung_up=True), BAD),
        (call_measurements(ttft=None, total=0.5, hung_up=True), None),
        (call_measurements(ttft=None, total=0.6, hung_up=True), BAD),
        (call_measurements(ttft=None, total=0.1, failed=True), None),
        (call_measurements(ttft=None, total=0.6, failed=True), BAD),
        (call_measurements(ttft=0.1, total=60.0, failed=True), None),
        (call_measurements(ttft=0.6, total=60.0, failed=True), BAD),
        (call_measurements(ttft=None, total=0.1), None),
        (call_measurements(ttft=None, total=0.6), BAD),
        (call_measurements(ttft=None, total=0.1, streamed=False), GOOD),
        (call_measurements(ttft=None, total=0.6, streamed=False), BAD),
    ],
)
def test_a_first_token_is_in_time_or_not_or_was_never_due(
    call: CallMeasurements, verdict: object
) -> None:
    assert classify_call(TTFT, call) == verdict


@pytest.mark.parametrize(
    ("call", "verdict"),
    [
        (call_measurements(total=2.0), GOOD),
        (call_measurements(total=2.1), BAD),
        (call_measurements(total=2.0, failed=True), None),
        (call_measurements(total=2.1, failed=True), BAD),
        (call_measurements(total=2.0, hung_up=True), None),
        (call_measurements(total=2.1, hung_up=True), BAD),
    ],
)
def test_an_answer_is_in_time_or_not_or_never_came(call: CallMeasurements, verdict: object) -> None:
    assert classify_call(TOTAL, call) == verdict


@pytest.mark.parametrize(
    ("call", "verdict"),
    [
        (call_measurements(), GOOD),
        (call_measurements(failed=True), BAD),
        (call_measurements(failed=True, hung_up=True), BAD),
        (call_measurements(hung_up=True), None),
    ],
)
def test_an_error_is_bad_and_a_caller_who_leaves_is_none(
    call: CallMeasurements, verdict: object
) -> None:
    assert classify_call(ERRORS, call) == verdict


@pytest.mark.parametrize(
    ("nanos", "verdict"),
    [(50_000_000, GOOD), (50_000_001, BAD), (0, GOOD), (None, None)],
)
def test_a_cost_is_within_or_not_and_an_unknown_one_is_neither(
    nanos: int | None, verdict: object
) -> None:
    assert classify_call(COST, call_measurements(cost_nanos=nanos)) == verdict


@pytest.mark.parametrize(
    ("call", "verdict"),
    [
        (call_measurements(), (1_500, 500)),
        (call_measurements(prompt_tokens=1_024, cache_read=0), (0, 1_024)),
        (call_measurements(prompt_tokens=1_023, cache_read=0), None),
        (call_measurements(prompt_tokens=1_024, cache_read=2_000), (1_024, 0)),
        (call_measurements(first_turn=True), None),
    ],
)
def test_of_a_cache_the_tokens_count_that_it_could_have_known(
    call: CallMeasurements, verdict: object
) -> None:
    assert classify_call(CACHE, call) == verdict


def test_a_call_without_tokens_is_no_event_however_short_prompts_may_be() -> None:
    any_prompt = objective(metric=Metric.CACHE, target=0.7, min_prompt=0)
    assert classify_call(any_prompt, call_measurements(prompt_tokens=0, cache_read=0)) is None


@pytest.mark.parametrize("watched", [TTFT, TOTAL, ERRORS, COST, CACHE])
def test_a_call_that_no_model_worked_on_counts_toward_no_objective(watched: Objective) -> None:
    assert (
        classify_call(watched, call_measurements(generated=False, total=60.0, failed=True)) is None
    )


def test_every_call_is_good_where_an_objective_has_no_limit() -> None:
    assert (
        classify_call(objective(metric=Metric.TOTAL, under=None), call_measurements(total=1e9))
        == GOOD
    )
    assert (
        classify_call(objective(metric=Metric.COST, under_nanos=None), call_measurements()) == GOOD
    )


EVERYONE = objective(name="everyone")
ACME = objective(name="acme", team="acme")
CHAT = objective(name="chat", feature="chat")
UNNAMED = objective(name="unnamed", feature="")
STREAMS = objective(name="streams", team="acme", feature="chat", calls=RequestKind.STREAMS)
WHOLE = objective(name="whole", calls=RequestKind.WHOLE)
EVERY = (EVERYONE, ACME, CHAT, UNNAMED, STREAMS, WHOLE)


@pytest.mark.parametrize(
    ("team", "feature", "streamed", "expected"),
    [
        ("acme", "chat", True, (EVERYONE, ACME, CHAT, STREAMS)),
        ("acme", "chat", False, (EVERYONE, ACME, CHAT, WHOLE)),
        ("other", "chat", True, (EVERYONE, CHAT)),
        ("other", "search", True, (EVERYONE,)),
        ("acme", "", True, (EVERYONE, ACME, UNNAMED)),
        ("*", "*", True, (EVERYONE,)),
    ],
)
def test_a_call_counts_in_what_is_about_it(team, feature, streamed, expected):
    index = ObjectiveIndex(EVERY)
    assert index.applicable(team, feature, streamed) == expected
    assert index.applicable(team, feature, streamed) is index.applicable(team, feature, streamed)


def test_feature_names_that_callers_make_up_are_not_remembered() -> None:
    index = ObjectiveIndex(EVERY)
    for number in range(10_000):
        assert index.applicable("acme", f"made up {number}", streamed=True) == (EVERYONE, ACME)
    assert index._found.cache_info().currsize == 1


def test_no_objective_applies_where_there_are_none() -> None:
    assert ObjectiveIndex(()).applicable("acme", "chat", streamed=True) == ()


@pytest.mark.slow
@given(
    st.sampled_from([TTFT, TOTAL, ERRORS, COST]),
    st.none() | st.floats(0, 100),
    st.floats(0, 100),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.none() | st.integers(0, 10**12),
)
def test_a_call_is_one_event_at_most(
    watched: Objective,
    ttft: float | None,
    total: float,
    flags: tuple[bool, bool, bool],
    nanos: int | None,
) -> None:
    streamed, failed, hung_up = flags
    call = call_measurements(
        ttft=ttft, total=total, streamed=streamed, failed=failed, hung_up=hung_up, cost_nanos=nanos
    )
    assert classify_call(watched, call) in {GOOD, BAD, None}


def test_kind_of_calls_is_described_in_words():
    assert [request_kind_text(calls) for calls in RequestKind] == [
        "",
        "streams only",
        "whole answers only",
    ]


@pytest.mark.parametrize(
    ("phases", "verdict"),
    [
        ({Stage.QUEUE: 0.1}, GOOD),
        ({Stage.QUEUE: 0.11}, BAD),
        ({Stage.PREFILL: 9.0}, None),
        ({}, None),
    ],
)
def test_stage_is_in_time_or_not_and_does_not_count_if_unmeasured(
    phases: dict[Stage, float], verdict: object
) -> None:
    queue = objective(metric=Metric.QUEUE, under=0.1)

    assert classify_call(queue, call_measurements(phases=phases)) == verdict
