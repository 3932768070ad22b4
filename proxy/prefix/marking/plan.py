"""What was decided for a conversation at its first call, and holds until its last."""

from enum import StrEnum
from itertools import islice
from typing import Final

import msgspec

#: A caller who names new tools with every call fills so many places and no more.
_TOOLS: Final = 1_024
_POLICIES: Final = 64


class Arm(StrEnum):
    """Whether a conversation is planned or, to compare, sent as it came."""

    TREATED = "treated"
    CONTROL = "control"


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation marks on one kind of cache; "" marks nothing there.

    Attributes:
        tools: The lifetime of the mark after the tools, where what follows them changes.
        stable: The lifetime of the mark after the stable slot.
        semi: The lifetime of the mark after the semi-stable slot.
        history: The lifetime of the mark after the conversation so far.
        back: How many blocks at the end that mark leaves out, as later calls do not repeat them.
        explicit: Whether the provider's own choice of breakpoints is switched off (OpenAI).
        key: The routing or isolation key to send; "" for none.
        why: Why it is so, in one sentence.
    """

    tools: str = ""
    stable: str = ""
    semi: str = ""
    history: str = ""
    back: int = 0
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


def merged(kept: Plan, more: Plan) -> Plan:
    """The kept plan with the tools and policies it lacks; where both speak, it holds.

    Tools after the first 1,024 and policies after the first 64 are left out. One that begins anew
    with a newer layout takes the kept one's place.
    """
    if more.anew and more.layout > kept.layout:
        return more
    known = frozenset(kept.tools)
    tools = dict.fromkeys(tool for tool in more.tools if tool not in known)
    policies = kept.policies | {
        name: policy for name, policy in more.policies.items() if name not in kept.policies
    }
    return msgspec.structs.replace(
        kept,
        tools=(*kept.tools, *tools)[:_TOOLS],
        policies=dict(islice(policies.items(), _POLICIES)),
    )
