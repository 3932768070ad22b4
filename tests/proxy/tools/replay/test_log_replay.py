"""Whole logs, each call replayed as its own model."""

from pathlib import Path

import orjson
import pytest

from proxy.tools.replay.log_replay import LogOutcome, LogReplay
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.replay.source import RecordedSource
from tests.fakes.tool_logs import TOOL_LOGS
from tests.proxy.tools.replay.scene import CATALOG, RULES, assistant, body, system, user, with_times

SAID = [system(*RULES), user("Hi")]


def line(
    *models: str, feature: str = "f", problem: str = "", reply: bytes = b"null"
) -> RecordedCall:
    return RecordedCall(
        at=None,
        feature=feature,
        body=body(*SAID),
        models=models,
        answer_problem=problem,
        reply=reply,
    )


def replay_lines(*lines: RecordedCall, model: str = "") -> LogOutcome:
    chosen = CATALOG.models[model] if model else None
    return LogReplay(CATALOG.find, 0.0, chosen).replay(with_times(lines))


def test_each_call_is_replayed_as_its_own_model():
    outcome = replay_lines(line("marks"), line("breakpoints"), line("marks"))

    assert [(model.model, model.calls) for model in outcome.models] == [
        ("marks", 2),
        ("breakpoints", 1),
    ]
    assert outcome.calls == 3


def test_a_model_that_is_named_takes_every_call():
    outcome = replay_lines(line("marks"), line("nothing"), line(), model="breakpoints")

    assert [(model.model, model.calls) for model in outcome.models] == [("breakpoints", 3)]


@pytest.mark.parametrize(
    "name",
    [
        "openai/breakpoints",
        "breakpoints-2026-03-05",
        "azure/openai.breakpoints",
        "breakpoints@2026",
    ],
)
def test_a_model_is_found_under_the_names_that_other_gateways_write(name: str):
    assert [model.model for model in replay_lines(line(name)).models] == ["breakpoints"]


def test_the_first_name_that_the_catalog_has_is_taken():
    assert [model.model for model in replay_lines(line("my-alias", "marks")).models] == ["marks"]


def test_an_unknown_model_is_left_out_with_the_way_to_replay_it():
    (left_out,) = replay_lines(line("m1"), line("m1"), line("marks")).left_out

    assert left_out.count == 2
    assert left_out.why == (
        "the catalog has no model m1; --model NAME replays all calls as another"
    )


def test_models_of_one_log_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("proxy.tools.replay.log_replay._MAX_MODELS", 1)

    outcome = replay_lines(line("marks"), line("breakpoints"))

    assert outcome.calls == 1
    assert "beyond the first 1" in outcome.left_out[0].why


def test_calls_at_no_known_price_are_in_no_cost_where_others_have_one():
    outcome = replay_lines(line("blocks"), line("marks"))

    assert outcome.calls == 1
    assert {model.model: model.has_price for model in outcome.models} == {
        "blocks": False,
        "marks": True,
    }
    assert replay_lines(line("blocks")).calls == 1


def one_shot(number: int, model: str) -> RecordedCall:
    messages = [system(f"Call {number}.", *RULES * 20), user(f"Hi {number}")]
    return RecordedCall(at=None, feature="f", body=body(*messages), models=(model,))


@pytest.mark.parametrize(
    ("model", "calls", "waiting"), [("marks", 1, []), ("marks", 4, [3]), ("intervals", 4, [])]
)
def test_a_feature_whose_marks_lost_what_they_may_waits(model, calls, waiting):
    outcome = replay_lines(*(one_shot(number, model) for number in range(calls)))

    assert [feature.calls for feature in outcome.waiting] == waiting
    assert all(
        "marks wait behind the tools: they lost more than they earned" in feature.why
        for feature in outcome.waiting
    )


def test_an_answer_that_cannot_be_read_is_named_and_costs_as_much_as_the_others():
    reply = orjson.dumps(assistant("A long answer. " * 100))
    answered = line("marks", reply=reply)

    both = replay_lines(answered, line("marks", problem="odd"))
    whole = replay_lines(answered, answered)

    assert [(reason.why, reason.count) for reason in both.unreadable_answers] == [("odd", 1)]
    assert both.features[0].ways[0].nanos == whole.features[0].ways[0].nanos


def test_features_are_summed_over_models_the_dearest_first():
    outcome = replay_lines(
        line("breakpoints", feature="a"),
        *[line("marks", feature="b")] * 3,
        line("marks", feature="a"),
    )

    assert [(feature.feature, feature.calls) for feature in outcome.features] == [
        ("b", 3),
        ("a", 2),
    ]
    assert len(outcome.features[0].ways) == 4


def one_line_json(number: int) -> dict[str, str]:
    """A system text of one line of JSON whose first field changes with each call."""
    fields = {"now": f"2026-09-21T10:{number:02}:07Z", "rules": RULES * 9, "id": number * 7919}
    return {"role": "system", "content": orjson.dumps(fields).decode()}


@pytest.mark.parametrize("model", ["breakpoints", "marks", "intervals", "uncached"])
@pytest.mark.parametrize("first", [one_line_json, lambda n: system(f"It is {n}.", *RULES * 9)])
def test_no_order_and_no_marks_cost_less_than_every_prompt_read(model, first):
    lines = [
        RecordedCall(at=None, feature="f", body=body(first(n), user("Hi")), models=(model,))
        for n in range(60)
    ]
    (feature,) = replay_lines(*lines).features

    costs = [way.nanos for way in feature.ways[:3]]
    assert min(cost for cost in costs if cost is not None) >= (feature.least.nanos or 0) > 0
    assert feature.least.input_tokens == feature.ways[0].input_tokens


def test_the_least_reads_neither_a_first_prompt_nor_one_too_short_for_the_cache():
    priced = replay_lines(line("marks"), line("marks"), line("marks")).features[0].least
    small = [
        RecordedCall(at=None, feature="f", body=body(user("Hi")), models=("marks",))
        for _ in range(3)
    ]

    assert priced.cache_read_tokens == 2 * priced.input_tokens // 3
    assert replay_lines(*small).features[0].least.cache_read_tokens == 0


def test_the_curves_end_at_the_costs_with_answers_estimated():
    answered = line("marks", reply=orjson.dumps(assistant("A long answer. " * 100)))
    outcome = replay_lines(answered, line("marks"), answered, line("blocks"), line("marks"))

    assert outcome.curve_calls == (1, 2, 3, 4)
    assert [curve[-1] for curve in outcome.curves] == [
        way.nanos for way in outcome.features[0].ways
    ]
    assert all(list(curve) == sorted(curve) for curve in outcome.curves)
    assert replay_lines(line("blocks")).curves == []


@pytest.mark.parametrize(
    "name", sorted(set(TOOL_LOGS) - {"claude_code.jsonl", "rollout-2026.jsonl"})
)
def test_a_badly_built_prompt_is_cheaper_with_layouts_whatever_tool_logged_it(
    name: str, tmp_path: Path
):
    path = tmp_path / name
    path.write_bytes(TOOL_LOGS[name](40))
    chosen = CATALOG.models["intervals"]

    outcome = LogReplay(CATALOG.find, 0.0, chosen).replay(RecordedSource([path], gap=20.0))

    as_sent, _, layouts, _ = outcome.features[0].ways
    assert outcome.calls == 40
    assert as_sent.cache_read_tokens == 0
    assert layouts.nanos is not None
    assert as_sent.nanos is not None
    assert layouts.nanos < 0.9 * as_sent.nanos
