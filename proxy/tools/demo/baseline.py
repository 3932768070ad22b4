"""What the demo's calls would have come to otherwise: sent directly, or with layouts applied.

Nothing is sent for it. As in ``thriftgate replay``, the lab's caches are shown what each way sends,
at the moments the calls were made, and what they bill is priced as the ledger's calls are.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
import orjson

from proxy.caches.bills import call_usage
from proxy.catalog.catalog import Catalog
from proxy.tools.demo.traffic import Sent
from proxy.tools.replay.line_limits import bounds
from proxy.tools.replay.lines import Line
from proxy.tools.replay.planning import Planning
from proxy.tools.replay.prompts import Reading
from proxy.tools.replay.upstream_simulation import Sent as Arrived
from proxy.tools.replay.upstream_simulation import World
from proxy.tools.replay.variants import AsSent, Variant
from proxy.tools.simulator.rendering import Vocabulary
from slo.price import cost


class Sum(msgspec.Struct, frozen=True):
    """What some calls come to.

    Attributes:
        prompt: Their input tokens.
        read: Those of them read from a cache.
        nanos: Their cost in nano-dollars; None where a price is unknown.
    """

    prompt: int = 0
    read: int = 0
    nanos: int | None = 0

    def __add__(self, other: "Sum") -> "Sum":
        """Both together; their cost is known where both are."""
        prompt, read = self.prompt + other.prompt, self.read + other.read
        if self.nanos is None or other.nanos is None:
            return Sum(prompt, read, None)
        return Sum(prompt, read, self.nanos + other.nanos)

    @property
    def hit_rate(self) -> float:
        """Cache-read tokens ÷ input tokens; 0 where there were none."""
        return self.read / self.prompt if self.prompt else 0.0


class Otherwise(msgspec.Struct, frozen=True):
    """What the calls that were answered would have come to, by the names of their teams.

    Attributes:
        direct: Sent by their applications as they are, with no gateway between.
        arranged: Sent through a gateway that applies every layout as soon as it is learned.
    """

    direct: Mapping[str, Sum] = {}
    arranged: Mapping[str, Sum] = {}


def otherwise(sent: Iterable[Sent], catalog: Catalog, at: float) -> Otherwise:
    """Both; takes some milliseconds for each call.

    Args:
        sent: The calls; those that failed are left out.
        catalog: The models they asked for; each is reached by the first of its routes.
        at: The moment whose prices are valid, in seconds since the epoch.
    """
    vocabulary = Vocabulary()
    direct: dict[str, Sum] = {}
    arranged: dict[str, Sum] = {}
    for name, calls in _by_model(sent).items():
        model = catalog.models[name]
        reading = Reading(model, model.routes[0], vocabulary)
        _add(direct, _played(calls, reading, AsSent(), at))
        _add(arranged, _played(calls, reading, Planning(reading, at, arranges=True), at))
    return Otherwise(direct, arranged)


def _by_model(sent: Iterable[Sent]) -> dict[str, list[Sent]]:
    """The calls that were answered; a cache belongs to one model."""
    found: dict[str, list[Sent]] = {}
    for each in sent:
        if not each.error:
            found.setdefault(each.planned.model, []).append(each)
    return found


def _add(sums: dict[str, Sum], found: Iterable[tuple[str, Sum]]) -> None:
    for team, one in found:
        sums[team] = sums.get(team, Sum()) + one


def _played(
    calls: Iterable[Sent], reading: Reading, variant: Variant, at: float
) -> Iterator[tuple[str, Sum]]:
    """The team of each call and what it comes to, all sent to one model in this way."""
    world = World(reading.simulated, bounds(reading.simulated))
    tariff = reading.route.tariff
    for each in calls:
        line, now = _line(each), each.planned.at.timestamp()
        arrived = Arrived(
            prompt=reading.prompt(variant.body(line, now), now),
            generated=reading.generated(line.reply),
            length=each.output,
            conversation=line.conversation,
        )
        usage = call_usage(world.serve(arrived, now), output=each.output)
        variant.served(usage)
        found = None if tariff is None else cost(usage, tariff, at)
        nanos = None if found is None else found.effective_nanos
        yield each.planned.team, Sum(usage.prompt_tokens, usage.cache_read, nanos)


def _line(sent: Sent) -> Line:
    """The call as a recorded one; its body is made again from the answers that came before."""
    planned = sent.planned
    return Line(
        at=None,
        conversation=planned.conversation.id,
        key=planned.team,
        feature=planned.feature,
        body=orjson.dumps(planned.body()),
        reply=orjson.dumps(sent.message),
    )
