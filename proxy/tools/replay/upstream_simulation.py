"""One variant's upstream: its cache, the answers still under way, and what was sent to it."""

from heapq import heappop, heappush

import msgspec

from proxy.caches.port import Cache, CachedPrompt, Served
from proxy.prefix.explain.reasons import MissReason
from proxy.tools.replay.cache_limits import PieceTimes
from proxy.tools.replay.line_limits import CacheBounds
from proxy.tools.replay.prompt_units import beginnings, place
from proxy.tools.replay.variant_totals import MissedTokens
from proxy.tools.simulator.models import SimulatedModel
from proxy.tools.simulator.upstream import cache_of


class SimulatedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call as it reaches the upstream.

    Attributes:
        prompt: Prompt as its cache sees it.
        generated: The ids of the answer, where its text is known.
        length: Tokens of the answer.
        conversation: Conversation that it is a part of; "" where nobody says.
    """

    prompt: CachedPrompt
    generated: tuple[int, ...]
    length: int
    conversation: str = ""


class _Answer:
    """A call on its way: first begun, then ended."""

    __slots__ = ("begun", "gone", "sent")

    def __init__(self, sent: SimulatedCall) -> None:
        self.sent = sent
        self.begun = False
        self.gone = False


class UpstreamSimulation:
    """A simulated upstream that serves one call after another at their times.

    An answer begins and ends as long after its call as simulated models take. A later call of the
    same conversation that holds more messages shows that the answer had come by then.

    Args:
        model: Behaviour of the model.
        limits: The same cache's limits.
        room: Prompt tokens of the answers whose time has not come; beyond, the first ends early.
        cache: Cache that keeps prompts; None for the model's own.
    """

    def __init__(
        self,
        model: SimulatedModel,
        limits: CacheBounds,
        room: int = 4_000_000,
        cache: Cache | None = None,
    ) -> None:
        self._room = room
        self._model = model
        self._limits = limits
        self._cache = cache or cache_of(model)
        self._due: list[tuple[float, int, _Answer, bool]] = []
        self._open: dict[str, _Answer] = {}
        self._held = 0
        self._number = 0
        self._seen = PieceTimes()

    def serve(self, sent: SimulatedCall, now: float) -> Served:
        """Serves the call from the simulated cache; returns its cache reads and writes.

        Raises:
            ValueError: The provider would refuse its marks; says why.
        """
        self._arrive(sent, now)
        served = self._cache.serve(sent.prompt, now)
        self._leave(sent, now, served.read)
        return served

    def missed_tokens(
        self, sent: SimulatedCall, read: int, known: int, now: float
    ) -> list[MissedTokens]:
        """Tokens of the call that were not read, by reason; call it once for each, after ``serve``.

        Args:
            sent: The call.
            read: Tokens read.
            known: Tokens that some earlier call had sent, in whatever order.
            now: Time at which it was made.
        """
        total = sent.prompt.tokens
        links = beginnings(sent.prompt, sent.generated if self._limits.answers else ())
        common, last = self._seen.common(links)
        common = min(common, total)
        self._seen.note(links, now)
        reached = max(common, read)
        known = min(max(known, reached), total)
        why, detail = self._why(common, common - read, last, now)
        lost = [
            MissedTokens(MissReason.FIRST_SEEN, total - known),
            MissedTokens(MissReason.DIVERGED, known - reached, f"in {place(sent.prompt, reached)}"),
            MissedTokens(why, reached - read, detail),
        ]
        return [each for each in lost if each.tokens]

    def _why(
        self, common: int, lost: int, last: float | None, now: float
    ) -> tuple[MissReason, str]:
        """Reason that a beginning which was sent before was not read."""
        limits = self._limits
        if not limits.caches:
            return MissReason.PROVIDER_SIDE, "no cache is known"
        if common < limits.least:
            return MissReason.BELOW_MINIMUM, ""
        if lost < limits.step:
            return MissReason.BELOW_MINIMUM, "between two steps"
        if last is not None and now - last > limits.lifetime:
            return MissReason.EXPIRED, ""
        return (MissReason.UNMARKED if limits.marks else MissReason.ELSEWHERE), ""

    def _arrive(self, sent: SimulatedCall, now: float) -> None:
        """Let what is over by now be over, each at its time; then what the call shows to be."""
        while self._due and self._due[0][0] <= now:
            self._step()
        before = self._open.get(sent.conversation)
        if before is not None and _goes_on(before.sent.prompt, sent.prompt):
            self._finish(before, now)

    def _leave(self, sent: SimulatedCall, now: float, read: int) -> None:
        """Let the answer come, in its time."""
        model = self._model
        answer = _Answer(sent)
        begins = now + model.ttft + model.per_1k * (sent.prompt.tokens - read) / 1000
        self._later(begins, answer, ends=False)
        self._later(begins + model.itl * sent.length, answer, ends=True)
        if sent.conversation:
            self._open[sent.conversation] = answer
        self._held += sent.prompt.tokens
        while self._held > self._room:
            self._step()

    def _later(self, at: float, answer: _Answer, *, ends: bool) -> None:
        self._number += 1
        heappush(self._due, (at, self._number, answer, ends))

    def _step(self) -> None:
        """Let the first that is due happen."""
        at, _, answer, ends = heappop(self._due)
        if ends:
            self._finish(answer, at)
            self._held -= answer.sent.prompt.tokens
        else:
            self._begin(answer, at)

    def _begin(self, answer: _Answer, at: float) -> None:
        if not answer.begun:
            answer.begun = True
            self._cache.begin_answer(answer.sent.prompt, at)

    def _finish(self, answer: _Answer, at: float) -> None:
        if answer.gone:
            return
        self._begin(answer, at)
        answer.gone = True
        sent = answer.sent
        self._cache.finish_answer(sent.prompt, sent.generated, at)
        if self._open.get(sent.conversation) is answer:
            del self._open[sent.conversation]


def _goes_on(before: CachedPrompt, after: CachedPrompt) -> bool:
    """True if a call holds more messages than one before it."""
    return after.blocks[-1].message > before.blocks[-1].message
