import pytest

from proxy.records.receipt import Outcome
from proxy.store.sql.access.teams import Teams
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.ledger.last_answers import Answers, CeilingCompliance, PastAnswer
from slo.ceiling import Ceiling
from slo.usage import Usage
from tests.fakes.receipts import START, a_receipt


@pytest.fixture
def answers(engine):
    usage = Usage(input=1, output=4, reasoning=5)
    inserter(engine)(
        [
            a_receipt(1, usage=usage, notes=("cut",)),
            a_receipt(2, outcome=Outcome.BROKEN),
            a_receipt(3, estimated=True),
            a_receipt(4, usage=None),
            a_receipt(6, usage=usage),
        ]
    )
    return Answers(engine)


def test_whole_answers_are_reported_the_newest_last(answers):
    assert answers.last() == [
        PastAnswer("team_1", "support", "model-1", "lab/model-1", 9, '["cut"]'),
        PastAnswer("team_0", "", "model-0", "lab/model-0", 9, "[]"),
    ]


def test_no_more_receipts_are_read_than_asked_for(answers):
    assert len(answers.last(4)) == 1
    assert answers.last(0) == []


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({}, CeilingCompliance(4, 2, 1, 12)),
        ({"team": "acme"}, CeilingCompliance(2, 1, 1, 11)),
        ({"feature": "b"}, CeilingCompliance(1, 0, 0, 12)),
        ({"team": "nobody"}, CeilingCompliance(0, 0, 0, None)),
    ],
)
def test_a_ceiling_is_compared_with_what_calls_cost(engine, fields, kept):
    acme = Teams(engine).create("acme", now=START).id
    mine = {"team": acme, "feature": "a"}
    inserter(engine)(
        [
            a_receipt(1, **mine, cost_nanos=10),
            a_receipt(2, **mine, cost_nanos=4, final=False),
            a_receipt(2, **mine, cost_nanos=7, attempt=1),
            a_receipt(3, **mine, cost_nanos=None),
            a_receipt(4, **mine, usage=None, cost_nanos=None),
            a_receipt(5, team="other", feature="b", cost_nanos=12),
            a_receipt(6, team="other", feature="c", cost_nanos=0),
        ]
    )

    assert Answers(engine).ceiling_compliance(Ceiling(name="c", limit=10, **fields)) == kept
    assert Answers(engine).ceiling_compliance(Ceiling(name="c", limit=10), most=1).calls == 1
