"""``count_tokens`` of Anthropic's API for models whose upstream counts none."""

import asyncio
import time

import orjson
import pytest

from proxy.api.token_counting import COUNT_TOKENS, LocalTokenCounts
from proxy.records.call import Call
from proxy.records.receipt import Outcome
from proxy.records.request_fields import parse_request_fields
from proxy.records.timeline import Timeline
from tests.fakes.call_dependencies import FakeLedger, call, fake_dependencies, route
from tests.fakes.caller import FakeCaller
from tests.fakes.refusals import refusing
from tests.fakes.upstream import FakeTransport

ASKED = {"model": "m", "messages": [{"role": "user", "content": "How long is this?"}]}


def answer_count(sent_call: Call, kind: str = "openai") -> tuple[bool, FakeCaller, FakeLedger]:
    """Return whether the call is answered, what its caller got, and what the ledger holds."""
    caller = FakeCaller()
    deps, ledger = fake_dependencies(FakeTransport([]), route("up", kind=kind))

    async def story() -> bool:
        return await LocalTokenCounts().answer(sent_call, caller, deps, Timeline(time.monotonic))

    is_answered = asyncio.run(story())
    return is_answered, caller, ledger


def count_call(body: object = ASKED, **fields: object) -> Call:
    sent = orjson.dumps(body)
    return call(sent, endpoint=COUNT_TOKENS, fields=parse_request_fields(sent), **fields)


def test_a_prompt_is_counted_and_its_receipt_has_no_usage() -> None:
    is_answered, caller, ledger = answer_count(count_call())
    (receipt,) = ledger.receipts

    assert is_answered
    assert caller.receipt is receipt
    assert orjson.loads(b"".join(caller.pieces)) == {"input_tokens": 12}
    assert (receipt.outcome, receipt.usage, receipt.endpoint) == (
        Outcome.ANSWERED,
        None,
        COUNT_TOKENS,
    )


@pytest.mark.parametrize(
    ("sent_call", "kind"),
    [
        (count_call(), "anthropic"),
        (count_call(method="GET"), "openai"),
        (call(orjson.dumps(ASKED), endpoint="messages"), "openai"),
    ],
    ids=["its provider counts", "another method", "another path"],
)
def test_other_calls_are_left_to_the_pipeline(sent_call: Call, kind: str) -> None:
    is_answered, caller, ledger = answer_count(sent_call, kind)

    assert (is_answered, caller.pieces, ledger.receipts) == (False, [], [])


def test_a_call_that_cannot_be_said_to_the_model_is_refused_with_the_fix() -> None:
    with refusing(400, match="container"):
        answer_count(count_call({**ASKED, "container": "c"}))
