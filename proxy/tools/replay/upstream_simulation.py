"""The simulated upstream of one variant: its cache, its answers in flight, and all that it got."""

from heapq import heappop, heappush

import msgspec

from proxy.caches.port import CachedPrompt, Served
from proxy.tools.simulator.models import SimulatedModel
from proxy.tools.simulator.upstream import cache_of


class SimulatedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call as it reaches the upstream.

    Attributes:
        generated: The ids of the answer, where its text is known.
    """

    prompt: CachedPrompt
    generated: tuple[int, ...]
    length: int
    conversation: str = ""


class _Answer:
    """A call on its way: first begun, then ended."""

    __slots__ = ("begun", "gone", "sent")

    def __init__(self, call: SimulatedCall) -> None:
        self.sent = call
        self.begun = False
        self.gone = False


class UpstreamSimulation:
    """A simulated upstream that serves one call after another at their times.

    An answer begins and ends as long after its call as simulated models take. A later call of the
    same conversation that holds more messages shows that the answer had come by then.

    Args:
        room: Prompt tokens of the answers whose time has not come; beyond, the first ends early.
    """

    def __init__(
        self,
        model: SimulatedModel,
        room: int = 4_000_000,
    ) -> None:
        self._room = room
        self._model = model
        self._cache = cache_of(model)
        self._due: list[tuple[float, int, _Answer, bool]] = []
        self._open: dict[str, _Answer] = {}
        self._held = 0
        self._number = 0

    def serve(self, call: SimulatedCall, now: float) -> Served:
        """Serves the call from the simulated cache; returns its cache reads and writes.

        Raises:
            ValueError: The provider would refuse its marks; says why.
        """
        self._arrive(call, now)
        served = self._cache.serve(call.prompt, now)
        self._leave(call, now, served.read)
        return served

    def _arrive(self, call: SimulatedCall, now: float) -> None:
        """Let what is over by now be over, each at its time; then what the call shows to be."""
        while self._due and self._due[0][0] <= now:
            self._step()
        before = self._open.get(call.conversation)
        last = call.prompt.blocks[-1].message
        if before is not None and last > before.sent.prompt.blocks[-1].message:
            self._finish(before, now)

    def _leave(self, call: SimulatedCall, now: float, read: int) -> None:
        model = self._model
        answer = _Answer(call)
        begins = now + model.ttft + model.per_1k * (call.prompt.tokens - read) / 1000
        self._later(begins, answer, ends=False)
        self._later(begins + model.itl * call.length, answer, ends=True)
        if call.conversation:
            self._open[call.conversation] = answer
        self._held += call.prompt.tokens
        while self._held > self._room:
            self._step()

    def _later(self, time: float, answer: _Answer, *, ends: bool) -> None:
        self._number += 1
        heappush(self._due, (time, self._number, answer, ends))

    def _step(self) -> None:
        time, _, answer, ends = heappop(self._due)
        if ends:
            self._finish(answer, time)
            self._held -= answer.sent.prompt.tokens
        else:
            self._begin(answer, time)

    def _begin(self, answer: _Answer, now: float) -> None:
        if not answer.begun:
            answer.begun = True
            self._cache.begin_answer(answer.sent.prompt, now)

    def _finish(self, answer: _Answer, now: float) -> None:
        if answer.gone:
            return
        self._begin(answer, now)
        answer.gone = True
        call = answer.sent
        self._cache.finish_answer(call.prompt, call.generated, now)
        if self._open.get(call.conversation) is answer:
            del self._open[call.conversation]
