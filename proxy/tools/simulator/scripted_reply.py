"""One call as the simulator answers it, before it is put into a provider's words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from proxy.tools.simulator.bodies import Body
from proxy.tools.simulator.models import SimulatedModel, WireName
from proxy.tools.simulator.rendering import Vocabulary
from proxy.tools.simulator.replies import ModelReply, ReplyRequest
from proxy.tools.simulator.streams import Json, StreamEvent
from slo.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReply:
    """A scripted answer.

    Attributes:
        id: A number of its own; each wire adds its prefix.
        created: Seconds since the epoch.
    """

    id: str
    created: int
    model: SimulatedModel
    request: ReplyRequest
    replies: Sequence[ModelReply]
    usage: Usage


class ReadingContext(NamedTuple):
    """The context for reading a body."""

    vocabulary: Vocabulary
    model: SimulatedModel
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointDialect:
    """The dialect of one generating endpoint.

    Attributes:
        opening: Number of events that open a stream at once, long before its content.
        midway: An event that tells usage before the end, as some servers do.
    """

    wire: WireName
    prefix: str
    read_request: Callable[[Body, ReadingContext], ReplyRequest]
    answer: Callable[[ScriptedReply], Json]
    events: Callable[[ScriptedReply], Sequence[StreamEvent]]
    midway: Callable[[ScriptedReply], StreamEvent]
    opening: int
