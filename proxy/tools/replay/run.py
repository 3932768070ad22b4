"""Recorded calls through every variant at once, one after the other."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from proxy.caches.bills import call_usage
from proxy.errors import OperatorError
from proxy.records.request_fields import replace_fields
from proxy.tools.replay.ceiling import IdealCache
from proxy.tools.replay.line_limits import cache_bounds
from proxy.tools.replay.lines import RecordedCall
from proxy.tools.replay.prompt_units import PromptUnits
from proxy.tools.replay.prompts import PromptReader
from proxy.tools.replay.upper_bound import UpperBoundCache
from proxy.tools.replay.upstream_simulation import SimulatedCall, UpstreamSimulation
from proxy.tools.replay.variant_totals import VariantRow, VariantTotals, with_closed_share
from proxy.tools.replay.variants import ReplayVariant, UnmodifiedVariant
from proxy.tools.replay.vocabulary import LineVocabulary
from slo.price import Tariff, call_cost
from slo.usage import Usage

_DAY: Final = 86_400.0
#: Reasons that are told; calls left out for others are counted under the last.
_REASONS: Final = 20
_OTHERS: Final = "other reasons"


class ReplayOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a replay.

    Attributes:
        calls: Calls replayed.
        unanswered: Of these, without a recorded answer: they count as answered with nothing.
        left_out: Calls that cannot be sent on this route, by the reason.
        left_out_first: Place of the first of them, by the reason, as ``file:line``.
        variants: One row each; the last is the ceiling of the calls as they were sent.
        sent_before: Tokens that earlier calls had sent, whatever the order, in the cache's steps;
            more than the ceiling's where a cache keeps whole units alone.
    """

    calls: int
    unanswered: int
    left_out: dict[str, int]
    variants: tuple[VariantRow, ...]
    left_out_first: dict[str, str] = {}
    sent_before: int = 0


def replay(
    calls: Iterable[tuple[float, RecordedCall]],
    reading: PromptReader,
    variants: Sequence[ReplayVariant] = (),
    *,
    day: float = 0.0,
    explains: bool = True,
) -> ReplayOutcome:
    """Replays the calls as they were sent, in every variant, and at best; returns the outcome.

    Args:
        calls: Calls with the time of each.
        reading: The route.
        variants: Variants to try besides sending them unmodified.
        day: The day whose prices are valid, in seconds since the epoch; hours are the calls' own.
        explains: True to say why tokens were not read, and what could be at best, which takes as
            long as all else; the ceiling's row is empty without.
    """
    run = _Run(reading, (UnmodifiedVariant(), *variants), day, explains=explains)
    for now, line in calls:
        run.call(line, now)
    return run.outcome()


class _VariantRun:
    """One variant, its upstream and its figures."""

    def __init__(self, variant: ReplayVariant, world: UpstreamSimulation) -> None:
        self.variant = variant
        self.world = world
        self.sums = VariantTotals()


class _Run:
    def __init__(
        self,
        reading: PromptReader,
        variants: Sequence[ReplayVariant],
        day: float,
        *,
        explains: bool = True,
    ) -> None:
        self._reading = reading
        self._explains = explains
        self._day = day
        self._tariff = reading.route.tariff
        self._limits = cache_bounds(reading.simulated)
        words = reading.vocabulary
        self._units = PromptUnits(words.ends if isinstance(words, LineVocabulary) else frozenset())
        self._ways = [
            _VariantRun(each, UpstreamSimulation(reading.simulated, self._limits))
            for each in variants
        ]
        self._ceiling = IdealCache(self._limits, self._units)
        self._best = VariantTotals()
        self._reach: UpstreamSimulation | None = None
        if self._limits.units:
            cache = UpperBoundCache(self._units, self._limits.build)
            self._reach = UpstreamSimulation(reading.simulated, self._limits, cache=cache)
        self._sent_before = 0
        self._left_out: Counter[str] = Counter()
        self._left_out_first: dict[str, str] = {}
        self._unanswered = 0
        self._calls = 0

    def call(self, line: RecordedCall, now: float) -> None:
        """Replay one call."""
        try:
            line = self._reading.in_route_api(self._with_replayed_model(line), now)
            prompt = self._reading.read_prompt(line.body, now, is_native=line.is_native)
        except OperatorError as why:
            reason = str(why)
            few = reason in self._left_out or len(self._left_out) < _REASONS
            self._left_out[reason if few else _OTHERS] += 1
            self._left_out_first.setdefault(reason if few else _OTHERS, line.where)
            return
        generated = self._reading.generated_tokens(line.reply)
        length = len(generated) if line.generated is None else line.generated
        self._unanswered += line.generated is None and line.reply == b"null"
        who = f"{line.key}\n{line.feature}\n{line.conversation}" if line.conversation else ""
        sent = SimulatedCall(prompt=prompt, generated=generated, length=length, conversation=who)
        if not self._explains:
            self._calls += 1
            for way in self._ways:
                self._serve(way, line, sent, 0, now)
            return
        taken = self._ceiling.split(prompt, generated)
        pieces = self._ceiling.known_pieces(taken)
        known = sum(piece.tokens for piece in pieces)
        reads = [self._serve(way, line, sent, known, now) for way in self._ways]
        within = known if self._reach is None else self._reach.serve(sent, now).read
        read = self._ceiling.read(within, prompt.tokens, reads[0])
        self._sent_before += self._ceiling.read(known, prompt.tokens, reads[0])
        self._calls += 1
        self._add_best(sent, read, now)
        if self._limits.write and read:
            self._write(min(self._ceiling.written_tokens(pieces), read), prompt.tokens, now)
        self._ceiling.note(taken)

    def outcome(self) -> ReplayOutcome:
        """The outcome of a replay."""
        rows = [way.sums.row(way.variant.name) for way in self._ways]
        other = {way.variant.name for way in self._ways if way.variant.shortens}
        return ReplayOutcome(
            calls=self._calls,
            unanswered=self._unanswered,
            left_out=dict(self._left_out),
            left_out_first=self._left_out_first,
            variants=with_closed_share([*rows, self._best.row("ceiling")], other),
            sent_before=self._sent_before,
        )

    def _with_replayed_model(self, line: RecordedCall) -> RecordedCall:
        """The line, sent to the model that is replayed."""
        model = {"model": msgspec.json.encode(self._reading.public)}
        return msgspec.structs.replace(line, body=replace_fields(line.body, model))

    def _serve(
        self, way: _VariantRun, line: RecordedCall, as_sent: SimulatedCall, known: int, now: float
    ) -> int:
        """Send the call one way; tokens read come back."""
        sent = self._prepare(way, line, as_sent, now)
        usage = None
        if sent is not None:
            try:
                usage = call_usage(way.world.serve(sent, now), output=sent.length)
            except ValueError:
                way.sums.refused += 1
        if sent is None or usage is None:
            sent, usage = as_sent, Usage(input=as_sent.prompt.tokens, output=as_sent.length)
        way.sums.add(usage, self._cost(usage, now))
        known = 0 if way.variant.shortens else known  # of its own prompts, nobody else sent any
        if self._explains:
            for missed in way.world.missed_tokens(sent, usage.cache_read, known, now):
                way.sums.miss(missed)
        way.variant.record_answer(usage)
        return usage.cache_read

    def _prepare(
        self, way: _VariantRun, line: RecordedCall, as_sent: SimulatedCall, now: float
    ) -> SimulatedCall | None:
        """The call as this variant sends it; None where the wire would not take that."""
        body = way.variant.body(line, now)
        if body is line.body or body == line.body:
            return as_sent
        try:
            prompt = self._reading.read_prompt(body, now, is_native=line.is_native)
        except OperatorError:
            way.sums.refused += 1
            return None
        return msgspec.structs.replace(as_sent, prompt=prompt)

    def _add_best(self, sent: SimulatedCall, read: int, now: float) -> None:
        usage = Usage(input=sent.prompt.tokens - read, cache_read=read, output=sent.length)
        self._best.add(usage, self._cost(usage, now))

    def _write(self, tokens: int, total: int, now: float) -> None:
        """Charge for tokens that were sent fresh and should have been written.

        It is charged with the call that reads them first, at the prices of a prompt of its size.
        """
        field = self._limits.write
        written = Usage(**{field: tokens}, input=total - tokens)
        dear, cheap = self._cost(written, now), self._cost(Usage(input=total), now)
        self._best.write(tokens)
        self._best.charge(None if dear is None or cheap is None else dear - cheap)

    def _cost(self, usage: Usage, now: float) -> int | None:
        return _cost(usage, self._tariff, self._day + now % _DAY)


def _cost(usage: Usage, tariff: Tariff | None, at: float) -> int | None:
    """The cost of a call after the route's discount, in nano-dollars; None if unknown."""
    found = None if tariff is None else call_cost(usage, tariff, at)
    return None if found is None else found.effective_nanos
