"""Calls that are made again, by the SDK or by the gateway, as the caller and the ledger see them.

Each test has a gateway of its own, for what a gateway makes again is a share of its latest calls.
"""

from collections.abc import Callable

import pytest

from proxy.records.receipt import Outcome
from tests.fakes.gateway_fixture import GatewayFixture
from tests.fakes.sdk import Dial
from tests.fakes.sdk_calls import chat


@pytest.fixture
def gateway(start_gateway: Callable[..., GatewayFixture]) -> GatewayFixture:
    """A gateway that has made nothing again so far."""
    return start_gateway()


def test_a_call_the_sdk_makes_again_is_two_calls_in_the_ledger(
    gateway: GatewayFixture, make_client: Dial, model: str, feature: str
) -> None:
    gateway.lab.queue_directives(["500", "500", "ok"])
    client = make_client(max_retries=2, default_headers={"x-thriftgate-feature": feature})
    answer = client.ask(chat(model, "Hello."))
    receipts = gateway.of_feature(feature, calls=2)
    failed = [receipt for receipt in receipts if receipt.outcome is Outcome.FAILED]
    (answered,) = [receipt for receipt in receipts if receipt.outcome is Outcome.ANSWERED]

    assert answer.choices[0].message.content
    assert len({receipt.call_id for receipt in receipts}) == 2
    assert [(r.attempt, r.final) for r in failed] == [(0, False), (1, True)]
    assert (answered.attempt, answered.final) == (0, True)
    assert [r.cost_nanos for r in failed] == [None, None]


def test_a_call_the_gateway_makes_again_is_one_call_in_the_ledger(
    gateway: GatewayFixture, make_client: Dial, model: str, feature: str
) -> None:
    gateway.lab.queue_directives(["529", "ok"])
    client = make_client(default_headers={"x-thriftgate-feature": feature})
    client.ask(chat(model, "Hello."))
    failed, answered = gateway.of_feature(feature)

    assert failed.call_id == answered.call_id
    assert [(r.attempt, r.final) for r in (failed, answered)] == [(0, False), (1, True)]
    assert (failed.outcome, answered.outcome) == (Outcome.FAILED, Outcome.ANSWERED)
