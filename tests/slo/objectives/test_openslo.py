import json

import pytest
import yaml
from hypothesis import given

from slo.alert import Severity
from slo.objectives.objective import BurnAlert, Enforce, Metric, Objective, RequestKind
from slo.objectives.openslo import objective_text, openslo_documents
from tests.fakes.objectives import objective, objectives


@pytest.mark.slow
@given(objectives(), objectives())
def test_different_objectives_are_written_differently(one: Objective, other: Objective) -> None:
    written, also = openslo_documents([one, other])
    assert (written == also) == (one == other)


@pytest.mark.slow
@given(objectives())
def test_a_document_is_the_same_by_way_of_yaml_and_json(drawn: Objective) -> None:
    (document,) = openslo_documents([drawn])
    assert yaml.safe_load(yaml.safe_dump(document)) == document
    assert json.loads(json.dumps(document)) == document


def test_a_document_is_as_openslo_has_it() -> None:
    example = objective(
        name="chat-ttft",
        feature="chat",
        calls=RequestKind.STREAMS,
        metric=Metric.TTFT,
        under=0.5,
        enforce=Enforce.DEGRADE,
        ladder=("elsewhere", "a,b"),
        alerts=(BurnAlert(burn=6.0, over=1800.0, severity=Severity.PAGE),),
    )
    (document,) = openslo_documents([example])
    assert (document["apiVersion"], document["kind"]) == ("openslo/v1", "SLO")
    assert document["metadata"] == {
        "name": "chat-ttft",
        "labels": {"feature": "chat"},
        "annotations": {
            "thriftgate.dev/enforce": "degrade",
            "thriftgate.dev/ladder": "requested,elsewhere,a%2Cb",
        },
    }
    spec = document["spec"]
    assert spec["service"] == "chat"
    assert spec["budgetingMethod"] == "Occurrences"
    assert spec["timeWindow"] == [{"duration": "28d", "isRolling": True}]
    assert spec["objectives"] == [{"displayName": "p95 of ttft within 500ms", "target": 0.95}]
    ratio = spec["indicator"]["spec"]["ratioMetric"]
    assert ratio["good"]["metricSource"] == {
        "type": "thriftgate",
        "spec": {"sli": "ttft", "calls": "streams", "feature": "chat", "le": 0.5},
    }
    assert "le" not in ratio["total"]["metricSource"]["spec"]
    ((policy,),) = [spec["alertPolicies"]]
    assert policy["metadata"]["name"] == "chat-ttft-1"
    (condition,) = policy["spec"]["conditions"]
    assert condition["spec"] == {
        "severity": "page",
        "condition": {
            "kind": "burnrate",
            "op": "gte",
            "threshold": 6.0,
            "lookbackWindow": "30m",
        },
    }


def test_a_floor_is_an_average_of_hours() -> None:
    (document,) = openslo_documents([objective(metric=Metric.CACHE, target=0.7, clear=0.75)])
    assert document["spec"]["budgetingMethod"] == "RatioTimeslices"
    assert document["spec"]["objectives"][0]["timeSliceWindow"] == "1h"
    assert document["metadata"]["annotations"]["thriftgate.dev/clear"] == "0.75"


def test_to_shed_goes_without_a_ladder() -> None:
    (document,) = openslo_documents([objective(enforce=Enforce.SHED, ladder=("shed",))])
    assert document["metadata"]["annotations"] == {"thriftgate.dev/enforce": "shed"}


def test_an_objective_is_described_in_a_few_words() -> None:
    texts = [
        objective_text(objective(metric=Metric.TOTAL, target=0.995, under=2.0)),
        objective_text(objective(metric=Metric.ERRORS, target=0.99)),
        objective_text(objective(metric=Metric.COST, target=0.99, under_nanos=50_000_000)),
        objective_text(objective(metric=Metric.CACHE, target=0.7)),
    ]
    assert texts == [
        "p99.5 of total within 2s",
        "at most 1% errors",
        "p99 of cost within $0.05",
        "cache reads 0.7 of input tokens",
    ]


def test_levels_keep_their_commas() -> None:
    ladder = ("a,b", "c%2C")
    (document,) = openslo_documents([objective(enforce=Enforce.DEGRADE, ladder=ladder)])
    names = document["metadata"]["annotations"]["thriftgate.dev/ladder"]
    assert names == "requested,a%2Cb,c%252C"
