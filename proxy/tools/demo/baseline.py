"""The demo's baseline: usage and cost of its calls if sent directly, or with layouts applied.

Nothing is sent for it. As in ``thriftgate replay``, simulated caches are shown what each way sends,
at the moments the calls were made, and what they bill is priced as the ledger's calls are.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import msgspec
import orjson

from proxy.caches.bills import call_usage
from proxy.catalog.catalog import Catalog
from proxy.tools.demo.support import PromptOrder, SupportScript
from proxy.tools.demo.traffic import DemoCall
from proxy.tools.replay.planning import PlannedVariant
from proxy.tools.replay.prompts import LineVocabulary, PromptReader
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.replay.run import ReplayVariant, UnmodifiedVariant
from proxy.tools.replay.upstream_simulation import SimulatedCall as Arrived
from proxy.tools.replay.upstream_simulation import UpstreamSimulation
from slo.price import call_cost


class CallTotals(msgspec.Struct, frozen=True):
    """The usage and cost of some calls.

    Attributes:
        prompt: Their input tokens.
        read: Those of them read from a cache.
    """

    prompt: int = 0
    read: int = 0
    nanos: int | None = 0
    calls: int = 0

    def __add__(self, other: "CallTotals") -> "CallTotals":
        """Both together; their cost is known where both are."""
        is_known = self.nanos is not None and other.nanos is not None
        return CallTotals(
            prompt=self.prompt + other.prompt,
            read=self.read + other.read,
            nanos=(self.nanos or 0) + (other.nanos or 0) if is_known else None,
            calls=self.calls + other.calls,
        )

    @property
    def hit_rate(self) -> float:
        """Cache-read tokens ÷ input tokens; 0 where there were none."""
        return self.read / self.prompt if self.prompt else 0.0

    @property
    def nanos_per_1k_calls(self) -> int | None:
        """Nano-dollars of 1,000 such calls; None where a price is unknown or there were none."""
        return None if self.nanos is None or not self.calls else self.nanos * 1000 // self.calls


class CostBaseline(msgspec.Struct, frozen=True):
    """The baseline totals of answered calls, by the names of their teams or by prompt orders.

    Attributes:
        direct: Sent by their applications as they are, with no gateway between.
        arranged: Sent through a gateway that applies every layout as soon as it is learned.
    """

    direct: Mapping[str, CallTotals] = {}
    arranged: Mapping[str, CallTotals] = {}


def baseline_costs(demo_calls: Iterable[DemoCall], catalog: Catalog, now: float) -> CostBaseline:
    """Both; takes some milliseconds for each call.

    Args:
        demo_calls: The calls; those that failed are left out.
        catalog: The models they asked for; each is reached by the first of its routes.
    """
    vocabulary = LineVocabulary()
    direct: dict[str, CallTotals] = {}
    arranged: dict[str, CallTotals] = {}
    for name, calls in _by_model(demo_calls).items():
        model = catalog.models[name]
        reading = PromptReader(model, model.routes[0], vocabulary)
        _add(direct, _replay_calls(calls, reading, UnmodifiedVariant(), now))
        _add(
            arranged,
            _replay_calls(calls, reading, PlannedVariant(reading, now, arranges=True), now),
        )
    return CostBaseline(direct, arranged)


def order_costs(
    demo_calls: Iterable[DemoCall], built: CostBaseline, catalog: Catalog, now: float
) -> CostBaseline:
    """The totals of the badly built feature, had its prompts been built in each order."""
    calls = [
        call
        for call in demo_calls
        if isinstance(script := call.planned.conversation.script, SupportScript)
        and script.order is PromptOrder.VARIABLE_FIRST
    ]
    if not calls:
        return CostBaseline()
    team, order = calls[0].planned.team, PromptOrder.VARIABLE_FIRST
    direct, arranged = {order.value: built.direct[team]}, {order.value: built.arranged[team]}
    for order in (PromptOrder.STABLE_FIRST, PromptOrder.SHARED_PREFIX):
        totals = baseline_costs([_in_order(call, order) for call in calls], catalog, now)
        direct[order.value], arranged[order.value] = totals.direct[team], totals.arranged[team]
    return CostBaseline(direct, arranged)


def _in_order(call: DemoCall, order: PromptOrder) -> DemoCall:
    """The call as a careful author builds it: in that order, with the marks its cache wants."""
    conversation = call.planned.conversation
    script = conversation.script
    assert isinstance(script, SupportScript)  # noqa: S101 - others are not chosen
    built = conversation.with_script(replace(script, order=order, marks=True))
    return replace(call, planned=replace(call.planned, conversation=built))


def _by_model(demo_calls: Iterable[DemoCall]) -> dict[str, list[DemoCall]]:
    """The calls that were answered; a cache belongs to one model."""
    calls: dict[str, list[DemoCall]] = {}
    for call in demo_calls:
        if not call.error:
            calls.setdefault(call.planned.model, []).append(call)
    return calls


def _add(sums: dict[str, CallTotals], totals: Iterable[tuple[str, CallTotals]]) -> None:
    for team, one in totals:
        sums[team] = sums.get(team, CallTotals()) + one


def _replay_calls(
    calls: Iterable[DemoCall], reading: PromptReader, variant: ReplayVariant, start: float
) -> Iterator[tuple[str, CallTotals]]:
    """The team of each call and what it comes to, all sent to one model in this way."""
    world = UpstreamSimulation(reading.simulated)
    tariff = reading.route.tariff
    for call in calls:
        line, now = _line(call), call.planned.time.timestamp()
        arrived = Arrived(
            prompt=reading.read_prompt(variant.body(line, now), now),
            generated=reading.generated_tokens(line.reply),
            length=call.output,
            conversation=line.conversation,
        )
        usage = call_usage(world.serve(arrived, now), output=call.output)
        variant.record_answer(usage)
        cost = None if tariff is None else call_cost(usage, tariff, start)
        nanos = None if cost is None else cost.effective_nanos
        yield call.planned.team, CallTotals(usage.prompt_tokens, usage.cache_read, nanos, 1)


def _line(demo_call: DemoCall) -> RecordedCall:
    """The call as a recorded one; its body is made again from the answers that came before."""
    planned = demo_call.planned
    return RecordedCall(
        at=None,
        conversation=planned.conversation.id,
        key=planned.team,
        feature=planned.feature,
        body=orjson.dumps(planned.body()),
        reply=orjson.dumps(demo_call.message),
    )
