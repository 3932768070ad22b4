"""Sends recorded calls through every variant at once, in order."""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import msgspec

from proxy.caches.bills import call_usage
from proxy.calls.eligibility.route_target import route_target
from proxy.errors import OperatorError
from proxy.records.request_fields import replace_fields
from proxy.tools.replay.prompts import PromptReader
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.replay.upstream_simulation import SimulatedCall, UpstreamSimulation
from proxy.tools.replay.variant_totals import FeatureTotals, TotalsByFeature
from slo.price import call_cost
from slo.usage import Usage


class ReplayVariant(Protocol):
    """One way to send every call."""

    name: str

    def body(self, line: RecordedCall, now: float) -> bytes:
        """The chat body that goes to the wire in place of the line's.

        Args:
            line: The call; its body names the model it is sent to.
        """
        ...

    def record_answer(self, usage: Usage) -> None:
        """Learn from the answer's usage how the call just sent was served, as a gateway does."""
        ...


class UnmodifiedVariant:
    """Sends calls unmodified."""

    name = "as sent"

    def body(self, line: RecordedCall, now: float) -> bytes:
        """The caller's own."""
        return line.body

    def record_answer(self, usage: Usage) -> None:
        """Learn nothing."""


_DAY: Final = 86_400.0


class ModelReplay:
    """Calls of one model: sent unmodified, and in each variant.

    Each way has an upstream of its own, so none reads what another wrote.

    Args:
        variants: Ways to try besides sending the calls unmodified.
        day: The day whose prices are valid, in seconds since the epoch; hours are the calls' own.

    Attributes:
        uncached_usage: Tokens of the call replayed last, none of them read from a cache.
    """

    def __init__(
        self, reading: PromptReader, variants: Sequence[ReplayVariant] = (), *, day: float = 0.0
    ) -> None:
        self._reading = reading
        self._day = day
        self._variants: Sequence[ReplayVariant] = (UnmodifiedVariant(), *variants)
        self._worlds = [UpstreamSimulation(reading.simulated) for _ in self._variants]
        self._totals = TotalsByFeature(len(self._variants))
        self._least_tokens = route_target(reading.route, reading.public, day).regime.least
        self._calls = 0
        self.uncached_usage = Usage()

    @property
    def prompt_reader(self) -> PromptReader:
        """The route."""
        return self._reading

    @property
    def variants(self) -> Sequence[ReplayVariant]:
        """The ways the calls are sent, the unmodified one first."""
        return self._variants

    def call(self, line: RecordedCall, now: float) -> Sequence[int | None]:
        """Replay one call; returns its cost in each way, in nano-dollars, None where unknown.

        Raises:
            OperatorError: If it cannot be sent on this route.
        """
        reading = self._reading
        model = {"model": msgspec.json.encode(reading.public)}
        line = msgspec.structs.replace(line, body=replace_fields(line.body, model))
        line = reading.in_route_api(line, now)
        prompt = reading.read_prompt(line.body, now, is_native=line.is_native)
        generated = reading.generated_tokens(line.reply)
        call = SimulatedCall(
            prompt=prompt,
            generated=generated,
            length=len(generated) if line.generated is None else line.generated,
            conversation=_conversation(line),
        )
        self.uncached_usage = Usage(input=prompt.tokens, output=call.length)
        feature = self._totals.of(line.feature)
        answers = [
            self._send(number, line, call, feature, now) for number in range(len(self._variants))
        ]
        longest = max(usage.prompt_tokens for usage, _ in answers)
        feature.least.add(*self._least(call, longest, now))
        if line.is_answered:
            feature.add_answer(self._answer_cost(call, now))
        else:
            feature.unanswered += 1
        self._calls += 1
        return [cost for _, cost in answers]

    def features(self) -> list[FeatureTotals]:
        """The totals of each feature."""
        return self._totals.features()

    def _send(
        self, number: int, line: RecordedCall, as_sent: SimulatedCall, to: FeatureTotals, now: float
    ) -> tuple[Usage, int | None]:
        variant, totals = self._variants[number], to.ways[number]
        simulated = self._prepare(variant, line, as_sent, now)
        usage = None
        if simulated is not None:
            try:
                served = self._worlds[number].serve(simulated, now)
                usage = call_usage(served, output=simulated.length)
            except ValueError:
                usage = None
        if usage is None:
            totals.refused += 1
            usage = Usage(input=as_sent.prompt.tokens, output=as_sent.length)
        totals.add(usage, cost := self._cost(usage, now))
        variant.record_answer(usage)
        return usage, cost

    def _least(self, call: SimulatedCall, longest: int, now: float) -> tuple[Usage, int | None]:
        """The call with its whole prompt read, where the cache may hold any of it.

        Nothing is held before the first call, and no prompt below the least that is kept.
        """
        tokens = call.prompt.tokens
        if self._calls and longest >= self._least_tokens and self._reading.route.regime:
            usage = Usage(cache_read=tokens, output=call.length)
            if (cost := self._cost(usage, now)) is not None:
                return usage, cost
        usage = Usage(input=tokens, output=call.length)
        return usage, self._cost(usage, now)

    def _prepare(
        self, variant: ReplayVariant, line: RecordedCall, as_sent: SimulatedCall, now: float
    ) -> SimulatedCall | None:
        """The call as this variant sends it; None where the wire would not take that."""
        body = variant.body(line, now)
        if body is line.body or body == line.body:
            return as_sent
        try:
            prompt = self._reading.read_prompt(body, now, is_native=line.is_native)
        except OperatorError:
            return None
        return msgspec.structs.replace(as_sent, prompt=prompt)

    def _answer_cost(self, call: SimulatedCall, now: float) -> int | None:
        prompt = Usage(input=call.prompt.tokens)
        whole = self._cost(msgspec.structs.replace(prompt, output=call.length), now)
        alone = self._cost(prompt, now)
        return None if whole is None or alone is None else whole - alone

    def _cost(self, usage: Usage, now: float) -> int | None:
        """The cost of a call after the route's discount, in nano-dollars; None if unknown."""
        tariff = self._reading.route.tariff
        if tariff is None:
            return None
        cost = call_cost(usage, tariff, self._day + now % _DAY)
        return None if cost is None else cost.effective_nanos


def replay(
    calls: Iterable[tuple[float, RecordedCall]],
    reading: PromptReader,
    variants: Sequence[ReplayVariant] = (),
    *,
    day: float = 0.0,
) -> ModelReplay:
    """Replay calls of one model; those that cannot be sent on its route are left out."""
    run = ModelReplay(reading, variants, day=day)
    for now, line in calls:
        try:
            run.call(line, now)
        except OperatorError:
            continue
    return run


def _conversation(line: RecordedCall) -> str:
    """Name of the conversation among all callers'; "" where the log has none."""
    return f"{line.key}\n{line.feature}\n{line.conversation}" if line.conversation else ""
