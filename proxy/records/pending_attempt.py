"""An attempt that was sent and has no receipt yet, noted in case the process is killed."""

import msgspec


class PendingAttempt(msgspec.Struct, frozen=True, array_like=True):
    """The facts of an attempt under way that its receipt needs, should the process be killed.

    Attributes:
        prompt_bytes: Size of the body without its encoded images and files.
        output: Tokens that it is likely to generate.
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
