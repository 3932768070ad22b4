import pytest

from proxy.records.receipt import Outcome
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.ledger.last_answers import Answers, PastAnswer
from slo.usage import Usage
from tests.fakes.receipts import a_receipt


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
