"""An attempt that was sent and has no receipt yet, noted in case the process is killed."""

import msgspec


class PendingAttempt(msgspec.Struct, frozen=True, array_like=True):
    """The facts of an attempt under way that its receipt needs, should the process be killed.

    Attributes:
        attempt: Its number within the call.
        started: Arrival of the call, in seconds since the epoch.
        team: The team's id.
        endpoint: The path below /v1/.
        route: The route it was sent to.
        upstream: The upstream it was sent to.
        streamed: True if the caller asked for a stream.
        prompt_bytes: Size of the body without its encoded images and files.
        output: Tokens that it is likely to generate.
        model: The public name the caller asked for.
        feature: Part of the caller's product that asked.
        user: Keyed hash of the end user; "" where it was not given.
    """

    call_id: str
    attempt: int
    started: float
    team: str
    key_id: str
    endpoint: str
    route: str
    upstream: str
    streamed: bool
    prompt_bytes: int
    output: int
    model: str = ""
    feature: str = ""
    user: str = ""
