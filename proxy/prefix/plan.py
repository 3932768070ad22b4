"""What was decided for a conversation at its first call, and holds until its last."""

from enum import StrEnum

import msgspec


class Arm(StrEnum):
    """Whether a conversation is planned or, to compare, sent as it came."""

    TREATED = "treated"
    CONTROL = "control"


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation marks on one kind of cache; "" marks nothing there.

    Attributes:
        stable: The lifetime of the mark after the stable slot.
        semi: The lifetime of the mark after the semi-stable slot.
        history: The lifetime of the mark after the conversation so far.
        explicit: Whether the provider's own choice of breakpoints is switched off (OpenAI).
        key: The routing or isolation key to send; "" for none.
        why: Why it is so, in one sentence.
    """

    stable: str = ""
    semi: str = ""
    history: str = ""
    explicit: bool = False
    key: str = ""
    why: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for one conversation; the same in every process that shares a store.

    Attributes:
        arm: Whether it is treated.
        layout: The version of the layout applied; 0 for none.
        tools: Fingerprints of its tools in the order they are sent (hex).
        policies: What it marks, by the regime's name and provider, as ``regime/provider``.
        joined: Whether it was met midway: its text and tools then stay where they were.
        anew: Whether it takes the place of an older one: a conversation that begins the same way
            begins again, now with a newer layout.
    """

    arm: Arm = Arm.TREATED
    layout: int = 0
    tools: tuple[str, ...] = ()
    policies: dict[str, Policy] = {}
    joined: bool = False
    anew: bool = False
