"""True if a conversation extends its own prefix on the wire, as an upstream's cache would see it.

::

    caller's body ── planner ──▶ Sent ── wire ──▶ upstream's body ── lab ──▶ blocks of tokens

The blocks of a call, without what varies per call at its end and whatever is marked in it, must be
the first blocks of the next call. Steps are judged where the caller itself only appended: rules and
tools may have moved, said messages may not.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import orjson

from proxy.caches.port import CachedPrompt, TokenBlock
from proxy.calls.translation.translation import prepare
from proxy.catalog.entries import REGIMES, TRAITS, Kind, Route, Upstream
from proxy.tools.simulator.apis.chat import CHAT
from proxy.tools.simulator.apis.messages import MESSAGES
from proxy.tools.simulator.bodies import parse_body
from proxy.tools.simulator.models import SimulatedModel, WireName
from proxy.tools.simulator.rendering import END, Vocabulary
from proxy.tools.simulator.replies import ReadingContext
from tests.fakes.call_dependencies import call
from tests.fakes.chat_refusals import CHAT_REFUSALS

_LEADING = ("system", "developer")
#: Traits a model may have at once.
_TRAITS = frozenset(TRAITS) - {"always_thinking"} - CHAT_REFUSALS


@dataclass(frozen=True)
class PlannedBody:
    """The planner's request for a body; ``tail`` messages at its end vary per call."""

    body: bytes
    tail: int = 0


Planner = Callable[[bytes], PlannedBody]


@dataclass(frozen=True, kw_only=True)
class PrefixMove:
    """A call whose prefix is not that of the call before.

    Attributes:
        step: Which call, from 0.
        block: The first block that differs.
        what: What stood there, in a few words.
    """

    step: int
    block: int
    what: str


def as_sent(body: bytes) -> PlannedBody:
    """The body unmodified."""
    return PlannedBody(body)


def route(regime: str) -> Route:
    """A route of this regime; Anthropic's speaks its own wire."""
    kind: Kind = "anthropic" if regime == "anthropic-breakpoint" else "openai"
    upstream = Upstream(name=regime, kind=kind, base_url="http://lab/v1", provider="")
    return Route(name=f"{regime}/any", upstream=upstream, regime=regime, traits=_TRAITS)


#: A route for every regime there is.
ROUTES: Mapping[str, Route] = {regime: route(regime) for regime in sorted(REGIMES)}


class WireReader:
    """Reads what goes to an upstream as the simulator would; texts it has read are remembered."""

    def __init__(self) -> None:
        self._vocabulary = Vocabulary()

    def prompt(self, body: bytes, by: Route) -> CachedPrompt:
        """The prompt that a chat body is on this route.

        Raises:
            CallerError: If the wire cannot say it.
            Refusal: If the upstream would refuse it.
        """
        prepared = prepare(call(body), by)
        is_claude = by.upstream.kind == "anthropic"
        wire: WireName = "anthropic" if is_claude else "openai"
        model = SimulatedModel(wire=wire, regime=by.regime, traits=by.traits)
        speech = MESSAGES if is_claude else CHAT
        return speech.read_request(
            parse_body(prepared.body), ReadingContext(self._vocabulary, model, "key")
        ).prompt

    def moves(self, bodies: Iterable[bytes], planner: Planner, by: Route) -> Iterator[PrefixMove]:
        """Each judged step of one conversation at which its prefix moved."""
        calls = ((body, self.blocks_before_tail(planner(body), by)) for body in bodies)
        for step, ((body, blocks), (next_, later)) in enumerate(pairwise(calls), start=1):
            if not _appends(body, next_):
                continue
            index = _first_difference(blocks, later)
            if index is not None:
                yield PrefixMove(step=step, block=index, what=_description(blocks[index]))

    def blocks_before_tail(self, planned: PlannedBody, by: Route) -> Sequence[TokenBlock]:
        """The blocks of a call but for its tail and what primes the answer."""
        blocks = self.prompt(planned.body, by).blocks[:-1]
        if not planned.tail:
            return blocks
        body = orjson.loads(planned.body)
        body["messages"] = body["messages"][: -planned.tail]
        without = self.prompt(orjson.dumps(body), by).blocks[:-1]
        index = _first_difference(
            without, blocks
        )  # where nothing is left, a wire says something else
        return blocks[: len(without) if index is None else index]


def _appends(body: bytes, after: bytes) -> bool:
    """True if the caller's own conversation only grew."""
    before, now = _said(body), _said(after)
    return now[: len(before)] == before


def _said(body: bytes) -> list[object]:
    messages = orjson.loads(body)["messages"]
    start = next(
        (index for index, message in enumerate(messages) if message["role"] not in _LEADING),
        len(messages),
    )
    return list(messages[start:])


def _first_difference(blocks: Sequence[TokenBlock], actual: Sequence[TokenBlock]) -> int | None:
    """The first block that is not the same; None if there is none."""
    for index, block in enumerate(blocks):
        if index >= len(actual) or _core(block) != _core(actual[index]):
            return index
    return None


def _core(block: TokenBlock) -> tuple[str, str, tuple[int, ...]]:
    """Role, kind and tokens, which must stay, but for a message's end, which may come later."""
    tokens = block.tokens[:-1] if block.tokens[-1:] == (END,) else block.tokens
    return block.role, block.kind, tokens


def _description(block: TokenBlock) -> str:
    return f"{block.role} {block.kind}, {len(block.tokens)} tokens"
