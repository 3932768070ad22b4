"""One call as the lab answers it, before it is put into a provider's words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from proxy.tools.simulator.bodies import Body
from proxy.tools.simulator.models import Simulated, WireName
from proxy.tools.simulator.rendering import Vocabulary
from proxy.tools.simulator.replies import Asked, Reply
from proxy.tools.simulator.streams import Event, Json
from slo.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is answered.

    Attributes:
        id: A number of its own; each wire adds its prefix.
        created: Seconds since the epoch.
        model: How the model behaves.
        asked: What was asked.
        replies: One, or as many as were asked for.
        usage: What is charged.
        diagnosed: What the answer says of its cache because it was asked.
    """

    id: str
    created: int
    model: Simulated
    asked: Asked
    replies: Sequence[Reply]
    usage: Usage
    diagnosed: Json = field(default_factory=dict)


class Context(NamedTuple):
    """What reading a body needs besides the body."""

    vocabulary: Vocabulary
    model: Simulated
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """How one generating endpoint speaks.

    Attributes:
        wire: Whose it is.
        prefix: What its answer ids begin with.
        asked: What a body asks for; raises Refusal.
        answer: The JSON answer.
        events: The stream.
        opening: How many events a stream opens with at once, long before its content.
        midway: An event that tells usage before the end, as some servers do.
    """

    wire: WireName
    prefix: str
    asked: Callable[[Body, Context], Asked]
    answer: Callable[[Told], Json]
    events: Callable[[Told], Sequence[Event]]
    midway: Callable[[Told], Event]
    opening: int
