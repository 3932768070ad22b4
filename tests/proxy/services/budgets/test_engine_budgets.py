"""Budgets of a self-hosted engine: reserved by its measured price, settled by GPU seconds."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from proxy.calls.metering.replica_costs import ReplicaCosts
from proxy.calls.metering.settlement import AttemptOutcome, settle_share
from proxy.providers.answers.engine_timings import EngineTimings
from proxy.records.receipt import Outcome, Receipt
from proxy.records.timeline import Timeline
from slo.budgets.budget import UnpricedPolicy
from slo.measured_rates import MIN_MEASURED_CALLS
from slo.price import call_cost
from slo.replica_cost import ReplicaPrice
from slo.usage import Usage
from tests.fakes.admission_harness import BODY, ROUTE, AdmissionHarness, budget
from tests.fakes.admission_scenarios import COUNTER, wait_until_settled
from tests.fakes.clock import ticks
from tests.fakes.refusals import refusing

pytestmark = pytest.mark.instant_time


#: Nano-dollars of two GPUs for a second, at $3.60 a GPU hour.
SECOND = 2_000_000
PRICE = ReplicaPrice(gpus=2, gpu_hour_nanos=3_600_000_000)
HOUSE = replace(ROUTE, tariff=None, upstream=replace(ROUTE.upstream, replica_price=PRICE))
PREFILL_S, DECODE_S = 0.5, 2.0
USED = Usage(input=400, cache_read=100, output=200)
#: By prefill of 400 tokens in half a second, and decode of 200 in two.
PROMPT_TOKEN, OUTPUT_TOKEN = SECOND * PREFILL_S / 400, SECOND * DECODE_S / 200


class PaidEngine:
    """An engine that reports half a second of prefill and two of decode for each call."""

    def __init__(self, limit: int = 10**12) -> None:
        self.costs = ReplicaCosts()
        self.costs.update([HOUSE.upstream], ticks())
        policy = budget(limit=limit, unpriced=UnpricedPolicy.ALLOW)
        self.harness = AdmissionHarness(policy, tariff=self.costs.tariff)

    async def call(
        self, number: int, *, queue_s: float = 0.0, outcome: Outcome = Outcome.ANSWERED
    ) -> tuple[int, Receipt]:
        """Amount held while a call runs, and its receipt."""
        attempt = self.harness.attempt(number, over=HOUSE)
        timeline = Timeline(ticks)
        await self.harness.admit(attempt)
        reserved = (await self.harness.level(COUNTER)).held
        use = self.costs.begin(HOUSE.upstream, ticks())
        attempt = msgspec.structs.replace(attempt, replica_use=use, sent_at=ticks())
        await asyncio.sleep(queue_s + PREFILL_S + DECODE_S)
        timings = EngineTimings(prefill=PREFILL_S, decode=DECODE_S)
        share = settle_share(attempt, timeline, USED, timings)
        end = AttemptOutcome(outcome=outcome, status=200, usage=USED, timings=timings, share=share)
        receipt = self.harness.end(attempt, end)
        await wait_until_settled(self.harness)
        return reserved, receipt

    async def measure(self) -> int:
        """Let prices be measured; what these calls cost."""
        receipts = [(await self.call(n))[1] for n in range(MIN_MEASURED_CALLS)]
        return sum(receipt.cost_nanos or 0 for receipt in receipts)


async def test_a_call_holds_its_measured_price_and_pays_the_receipt_s_gpu_seconds() -> None:
    engine = PaidEngine()
    before = await engine.measure()
    reserved, receipt = await engine.call(9)
    level = await engine.harness.level(COUNTER)

    # At worst each byte is a token, the template adds 256, and 1,000 are generated.
    worst = (len(BODY) + 256) * PROMPT_TOKEN + 1_000 * OUTPUT_TOKEN
    assert reserved == pytest.approx(worst, rel=0.001)
    assert receipt.gpu_seconds == pytest.approx(2 * (PREFILL_S + DECODE_S))
    assert receipt.cost_nanos == pytest.approx((PREFILL_S + DECODE_S) * SECOND, abs=1)
    assert (level.spent - before, level.held) == (receipt.cost_nanos, 0)
    assert reserved >= (receipt.cost_nanos or 0)


async def test_the_tokens_of_a_call_at_the_measured_price_cost_what_its_receipt_says() -> None:
    engine = PaidEngine()
    await engine.measure()
    _, receipt = await engine.call(9)
    tariff = engine.costs.tariff(HOUSE)

    assert tariff is not None
    assert receipt.usage is not None
    priced = call_cost(receipt.usage, tariff, receipt.started)
    assert priced is not None
    assert priced.effective_nanos == pytest.approx(receipt.cost_nanos, rel=1e-6)


async def test_time_in_the_engine_s_queue_is_neither_paid_nor_spent() -> None:
    engine = PaidEngine()
    before = await engine.measure()
    _, receipt = await engine.call(9, queue_s=30.0)
    level = await engine.harness.level(COUNTER)

    assert receipt.cost_nanos == pytest.approx((PREFILL_S + DECODE_S) * SECOND, abs=1)
    assert level.spent - before == receipt.cost_nanos


async def test_a_call_that_breaks_off_pays_its_share_and_frees_the_rest_of_its_hold() -> None:
    engine = PaidEngine()
    before = await engine.measure()
    _, receipt = await engine.call(9, outcome=Outcome.BROKEN)
    level = await engine.harness.level(COUNTER)

    assert receipt.cost_nanos
    assert (level.spent - before, level.held) == (receipt.cost_nanos, 0)


async def test_an_engine_s_call_that_its_budget_cannot_pay_is_refused() -> None:
    spent = MIN_MEASURED_CALLS * round((PREFILL_S + DECODE_S) * SECOND)
    left = round(500 * OUTPUT_TOKEN)

    engine = PaidEngine(limit=spent + left)
    assert await engine.measure() == spent
    with refusing(429):
        await engine.harness.admit(engine.harness.attempt(9, over=HOUSE))
    assert (await engine.harness.level(COUNTER)).held == 0
