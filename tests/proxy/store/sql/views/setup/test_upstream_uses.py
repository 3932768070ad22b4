"""Uses of upstreams: the last answer and the last refusal of the key in a day."""

from sqlalchemy import Engine

from proxy.records.receipt import Outcome, Receipt
from proxy.store.sql.ids import call_ids
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.setup.upstream_uses import UpstreamUse, upstream_uses
from tests.fakes.receipts import START, a_receipt

NOW = START + 200_000.0
_make_id = call_ids()


def receipt_before(seconds: float, upstream: str, error: str = "") -> Receipt:
    started = NOW - seconds
    outcome = Outcome.FAILED if error else Outcome.ANSWERED
    return a_receipt(
        started=started,
        call_id=_make_id(started),
        upstream=upstream,
        outcome=outcome,
        error=error,
    )


def test_the_last_answer_and_the_last_refusal_of_each_upstream_are_found(engine: Engine) -> None:
    receipts = [
        receipt_before(300, "lab"),
        receipt_before(200, "lab"),
        receipt_before(100, "lab", "upstream_unauthorized"),
        receipt_before(90, "lab", "upstream_unauthorized"),
        receipt_before(50, "lab", "upstream_timeout"),
        receipt_before(40, "other"),
    ]
    assert inserter(engine)(receipts) is None

    assert upstream_uses(Readers(engine), NOW) == {
        "lab": UpstreamUse(answered=NOW - 200, refused=NOW - 90, refusals=2),
        "other": UpstreamUse(answered=NOW - 40, refused=None, refusals=0),
    }


def test_uses_before_the_last_day_are_left_out(engine: Engine) -> None:
    assert inserter(engine)([receipt_before(90_000, "lab")]) is None

    assert upstream_uses(Readers(engine), NOW) == {}
