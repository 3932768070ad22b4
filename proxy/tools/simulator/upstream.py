"""A simulated provider's state: its caches, its script, its limits, and what it has seen."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from proxy.caches.port import Cache, CachedPrompt, Served
from proxy.caches.regimes import build_cache
from proxy.tools.simulator.apis.batches import BatchShelf
from proxy.tools.simulator.fault_directives import FaultDirectives, parse_directives
from proxy.tools.simulator.limits import RateAllowance
from proxy.tools.simulator.models import SimulatedModel, SimulatorSettings
from proxy.tools.simulator.rendering import Vocabulary
from proxy.tools.simulator.scenario import Scenario, ScenarioPhase
from proxy.tools.simulator.streams import Json
from slo.usage import Usage

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class SimulatedExchange:
    """A request that the simulator received, and its answer.

    Attributes:
        path: With the query, unmodified.
        headers: Names in lower case.
        status: The status sent; 0 while no headers have left.
        usage: Usage charged for the whole answer; None while nothing is.
        delivered: Generated tokens sent so far, in a stream.
        over: Set when the simulator is done with it, however it ended.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    cues: FaultDirectives = field(default_factory=FaultDirectives)
    status: int = 0
    sent: bytearray = field(default_factory=bytearray)
    usage: Usage | None = None
    delivered: int = 0
    complete: bool = False
    hung_up: bool = False
    request_id: str = ""
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Uncached:
    """A cache that keeps nothing."""

    def serve(self, prompt: CachedPrompt, now: float) -> Served:
        """All of it is computed."""
        return Served(read=0, fresh=prompt.tokens)

    def begin_answer(self, prompt: CachedPrompt, now: float) -> None:
        """Keep nothing."""

    def finish_answer(self, prompt: CachedPrompt, generated: tuple[int, ...], now: float) -> None:
        """Keep nothing."""


def cache_of(model: SimulatedModel) -> Cache:
    """A new cache of the model's regime.

    Raises:
        ValueError: If there is no such regime.
    """
    if not model.regime:
        return Uncached()
    return build_cache(model.regime, provider=model.provider, min_tokens=model.min_cache_tokens)


class Simulator:
    """One simulated provider, or several behind one address.

    Everything it keeps is bounded: the exchanges, the stored responses and the batches by
    ``settings.max_records``, the caches by themselves, the script by its author.
    """

    def __init__(
        self,
        settings: SimulatorSettings,
        *,
        clock: Clock,
        sleep: Sleep,
        vocabulary: Vocabulary | None = None,
        phases: Collection[ScenarioPhase] = (),
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.sleep = sleep
        self.vocabulary = vocabulary or Vocabulary()
        self.exchanges: deque[SimulatedExchange] = deque(maxlen=settings.max_records)
        self.responses: OrderedDict[str, list[Json]] = OrderedDict()
        self.batches = BatchShelf(settings.max_records)
        self.requests = RateAllowance(settings.requests_per_minute, clock())
        self.tokens = RateAllowance(settings.tokens_per_minute, clock())
        self._caches = {name: cache_of(model) for name, model in settings.models.items()}
        self._script: deque[FaultDirectives] = deque()
        self._suffers: dict[str, FaultDirectives] = {}
        self._scenario = Scenario(phases, clock())
        self._numbers = 0

    def queue_directives(self, cues: Iterable[str]) -> None:
        """Queue cues for the calls to come, one entry each; "" or "ok" lets a call be.

        Raises:
            ValueError: If one of them is unknown.
        """
        self._script.extend([parse_directives(cue) for cue in cues])

    def next_scripted(self) -> FaultDirectives:
        """The next entry of the script; none when it has run out."""
        return self._script.popleft() if self._script else FaultDirectives()

    def inject_fault(self, model: str, cue: str) -> None:
        """Let every call to the model of that name suffer this from now on; "" lets them be.

        Raises:
            ValueError: If the cue is unknown, or no such model is served.
        """
        if model not in self.settings.models:
            raise ValueError(f"The simulator serves no model {model!r}.")
        self._suffers[model] = parse_directives(cue)

    def injected_fault(self, model: str) -> FaultDirectives:
        """The fault of calls to the model of that name just now."""
        return self._suffers.get(model, FaultDirectives()) + self._scenario.cues(
            model, self.clock()
        )

    def number(self) -> str:
        """A number no answer has had."""
        self._numbers += 1
        return f"sim{self._numbers:016d}"

    def cache(self, name: str) -> Cache:
        """The cache of the model of that name."""
        return self._caches[name]

    def store(self, response_id: str, items: list[Json]) -> None:
        """Keep a conversation under the id of its latest response."""
        self.responses[response_id] = items
        while len(self.responses) > self.settings.max_records:
            self.responses.popitem(last=False)
