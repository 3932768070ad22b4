from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.alert import Severity
from slo.objective import BurnAlert, Enforce, Metric, RequestKind
from slo.openslo.reading import OpenSloImport, read_openslo


def slo(sli: str = "total", /, **spec: Any) -> dict[str, Any]:
    """The document of a p95 of 2 seconds, with these entries in its spec; None takes one out."""
    whole = {
        "indicator": indicator({"sli": sli, "le": 2}),
        "budgetingMethod": "Occurrences",
        "objectives": [{"target": 0.95}],
        **spec,
    }
    return {
        "apiVersion": "openslo/v1",
        "kind": "SLO",
        "metadata": {"name": "o"},
        "spec": {key: value for key, value in whole.items() if value is not None},
    }


def indicator(measured: dict[str, Any], kind: str = "thriftgate") -> dict[str, Any]:
    half = {"metricSource": {"type": kind, "spec": measured}}
    return {"metadata": {"name": "i"}, "spec": {"ratioMetric": {"good": half, "total": half}}}


def annotated(said: dict[str, str], document: dict[str, Any] | None = None) -> dict[str, Any]:
    made = document or slo()
    metadata = {
        "name": "o",
        "annotations": {f"thriftgate.dev/{key}": value for key, value in said.items()},
    }
    return {**made, "metadata": metadata}


def policy(**burn: Any) -> dict[str, Any]:
    condition = {
        "metadata": {"name": "c"},
        "spec": {
            "severity": "ticket",
            "condition": {"op": "gte", "threshold": 6, "lookbackWindow": "30m", **burn},
        },
    }
    return {"metadata": {"name": "p"}, "spec": {"conditions": [condition]}}


def document(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "openslo/v1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip


def test_what_others_write_by_hand_is_read_with_the_usual_defaults() -> None:
    (found,) = read_openslo([slo()]).objectives
    assert (found.metric, found.under, found.target) == (Metric.TOTAL, 2.0, 0.95)
    assert (found.team, found.feature, found.calls) == ("*", "*", RequestKind.ALL)
    assert (found.enforce, found.ladder, found.alerts) == (Enforce.ALERT, (), ())
    (ttft,) = read_openslo([slo("ttft")]).objectives
    assert ttft.calls is RequestKind.STREAMS


def test_labels_say_whose_calls_where_the_metric_does_not() -> None:
    labelled = {**slo(), "metadata": {"name": "o", "labels": {"team": "a", "feature": "chat"}}}
    (found,) = read_openslo([labelled]).objectives
    assert (found.team, found.feature) == ("a", "chat")
    measured = {"sli": "total", "le": 2, "team": "b", "feature": ""}
    labelled["spec"]["indicator"] = indicator(measured)
    (found,) = read_openslo([labelled]).objectives
    assert (found.team, found.feature) == ("b", "")


def test_a_target_may_be_percents() -> None:
    (found,) = read_openslo([slo(objectives=[{"targetPercent": 99.9}])]).objectives
    assert found.target == 0.999


def test_a_ladder_may_begin_with_what_is_requested() -> None:
    said = {"enforce": "degrade", "ladder": "requested, gpt-small, cache-only"}
    (found,) = read_openslo([annotated(said)]).objectives
    assert found.ladder == ("gpt-small", "cache-only")


def test_policies_conditions_and_indicators_may_have_documents_of_their_own() -> None:
    documents = [
        slo(indicator=None, indicatorRef="i", alertPolicies=[{"alertPolicyRef": "p"}]),
        document("SLI", "i", indicator({"sli": "total", "le": 2})["spec"]),
        document("AlertPolicy", "p", {"conditions": [{"conditionRef": "c"}]}),
        document("AlertCondition", "c", policy()["spec"]["conditions"][0]["spec"]),
    ]
    found = read_openslo(documents)
    assert (found.refused, found.skipped) == ((), ())
    (made,) = found.objectives
    assert made.alerts == (BurnAlert(burn=6, over=1800, severity=Severity.TICKET),)


def test_what_has_no_meaning_here_is_told() -> None:
    found = read_openslo(
        [
            document("Service", "chat", {}),
            document("Da\nta", "x", {}),
            slo(
                timeWindow=[{"duration": "1M", "calendar": {"startTime": "2026-01-01"}}],
                alertPolicies=[policy(op="lte", alertAfter="5m")],
            ),
        ]
    )
    assert found.refused == ()
    assert found.skipped == (
        "Service chat: its kind says nothing here.",
        "Da ta x: its kind says nothing here.",
        "SLO o: its timeWindow; error budgets have no end here.",
        "SLO o: alertAfter; the last twelfth of the window is looked at.",
        "SLO o: op lte; it is read as gte.",
    )


THRESHOLD = {"metadata": {"name": "i"}, "spec": {"thresholdMetric": {}}}
SHAPE = "is not as OpenSLO has it"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (3, f"Document 1 {SHAPE}"),
        ({"kind": "SLO"}, f"Document 1 {SHAPE}"),
        ({**slo(), "metadata": {"name": "a b"}}, f"Document 1 {SHAPE}"),
        ({**slo(), "apiVersion": "openslo/v2alpha"}, 'the string "openslo/v2alpha": write openslo'),
        (slo(objectives=[]), SHAPE),
        (slo(objectives=[{"target": 0.9}, {"target": 0.99}]), SHAPE),
        (slo(objectives=[{}]), "has no target, or two"),
        (slo(objectives=[{"target": 0.9, "targetPercent": 90}]), "has no target, or two"),
        (slo(objectives=[{"target": 0}]), "p is kept whatever happens"),
        (slo(budgetingMethod="Timeslices"), SHAPE),
        (slo(indicator=None), 'needs the SLI the string ""'),
        (slo(indicator=None, indicatorRef="j"), 'needs the SLI the string "j": give its document'),
        (slo(indicator=indicator({"sli": "total", "le": 2}, "Prometheus")), '"Prometheus"'),
        (slo(indicator=THRESHOLD), "has a thresholdMetric"),
        (slo(indicator=indicator({"sli": "speed"})), SHAPE),
        (slo(indicator=indicator({"sli": "total", "le": 2, "lt": 2})), SHAPE),
        (slo(indicator=indicator({"sli": "total"})), "under is missing"),
        (slo(indicator=indicator({"sli": "total", "le": "2s"})), 'the string "2s": write le'),
        (slo(indicator=indicator({"sli": "cost", "le": 0.05})), "no limit in dollars"),
        (slo(indicator=indicator({"sli": "errors", "le": 1.0})), "under is no limit of"),
        (slo(indicator=indicator({"sli": "cache", "min_prompt": 0})), "min_prompt is no length"),
        (slo(alertPolicies=[policy(threshold=21)]), "burn is 21, which can never come"),
        (slo(alertPolicies=[policy(lookbackWindow="1w")]), 'the string "1w": write 30m'),
        (slo(alertPolicies=[policy(kind="other")]), SHAPE),
        (slo(alertPolicies=[{"alertPolicyRef": 3}]), "needs the AlertPolicy 3"),
        (slo(alertPolicies=[{"conditionRef": "c"}]), SHAPE),
        (annotated({"enforce": "Alert"}), 'the string "Alert": did you mean alert?'),
        (annotated({"enforced": "alert"}), "did you mean thriftgate.dev/enforce?"),
        (annotated({"enforce": "degrade"}), "ladder is missing"),
        (annotated({"ladder": "a,,b"}), "a level without a name"),
        (annotated({"clear": "x"}), 'clears at the string "x"'),
        (annotated({"clear": "0.9"}), "clear is of a cache alone"),
        ({**slo(), "metadata": {"name": "o", "labels": {"team": ["a"]}}}, "several labels"),
        ({**slo(), "metadata": {"name": "o", "labels": {"team": "a" * 257}}}, "too long"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_its_reason(said: object, why: str) -> None:
    found = read_openslo([said])
    assert found.objectives == ()
    (refused,) = found.refused
    assert why in refused


def test_two_of_one_name_are_one_too_many() -> None:
    found = read_openslo([slo(), slo()])
    assert len(found.objectives) == 1
    assert found.refused == ("SLO o names a second SLO: give each a name of its own.",)


def test_a_file_without_end_is_refused() -> None:
    found = read_openslo([document("Service", "s", {})] * 1_001)
    assert found.refused == ("The file has over 1,000 documents: split it.",)


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
PLACES = st.sampled_from(
    ["metadata", "spec", "kind", "apiVersion", "objectives", "indicator", "timeWindow",
     "budgetingMethod", "alertPolicies", "indicatorRef"]
)  # fmt: skip


@given(PLACES, VALUES)
def test_whatever_stands_in_a_document_it_is_read_or_told(place: str, value: object) -> None:
    made = slo()
    inside = made if place in made or place == "kind" else made["spec"]
    inside[place] = value
    found: OpenSloImport = read_openslo([made])
    assert len(found.objectives) + len(found.refused) + len(found.skipped) >= 1
