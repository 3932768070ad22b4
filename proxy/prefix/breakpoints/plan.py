"""A conversation's plan and experiment arm: both are decided at its first call, and kept."""

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import Final

import msgspec

from proxy.prefix.layouts.agent_shapes import TextSplits

#: A caller who names new tools with every call fills so many places and no more.
_MAX_TOOLS: Final = 1_024
_MAX_POLICIES: Final = 64
#: Policies of which equal ones are one object.
_MAX_SHARED_POLICIES: Final = 1_024
#: Stands for the conversations that end alike but for their last messages.
SEVERAL: Final = "*"
_HASH_RANGE = 1 << 64
_ARM_LABEL = b"arm"  # so that no other choice made from the same hash goes along with this one


class ExperimentArm(StrEnum):
    """The arm of a conversation: planned, or sent unmodified to compare."""

    TREATED = "treated"
    CONTROL = "control"
    RELEASED = "released"  #: Drawn to be compared, and planned since comparing cost too much.


class BreakpointPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The marks of a conversation on one kind of cache.

    Attributes:
        ttl: The lifetime of its marks.
        places: Number of places, in wire order, that a mark ends.
        back: Number of blocks at the end of the conversation that its mark leaves out, as later
            calls do not repeat them.
        explicit: True if the provider's own choice of breakpoints is switched off (OpenAI).
        key: The routing or isolation key to send where the caller sends none; "" for none.
        shared_key: The key to send in place of the caller's own; "" for none.
    """

    ttl: str = ""
    places: int = 0
    back: int = 0
    explicit: bool = False
    key: str = ""
    shared_key: str = ""


@lru_cache(_MAX_SHARED_POLICIES)
def shared_policy(policy: BreakpointPolicy) -> BreakpointPolicy:
    """The policy, as one object for all conversations with an equal one."""
    return policy


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions for one conversation; the same in every process that shares a store.

    Attributes:
        layout: The version of the layout applied; 0 for none.
        tools: Fingerprints of its tools in the order they are sent (hex).
        policies: Breakpoint policies by the regime's name and provider, as ``regime/provider``.
        joined: True if it was met midway: its text and tools then stay where they were.
        replaced: Number of plans that it replaced, each with the layout that held by then.
        onward: Its first continuation, in hex: the chain of that call, and its last answer's key.
            () until it did. Another call that begins as it did belongs to it if it went on so, too.
        shape: The version of the agents' shapes by which its instructions are parted; 0 for none.
        conversation: In the place of a plan, the conversation (hex) whose first call was this but
            for its last messages, or ``SEVERAL``; "" for a plan.
    """

    arm: ExperimentArm = ExperimentArm.TREATED
    layout: int = 0
    tools: tuple[str, ...] = ()
    policies: dict[str, BreakpointPolicy] = {}
    joined: bool = False
    replaced: int = 0
    onward: tuple[str, ...] = ()
    shape: int = 0
    splits: tuple[TextSplits, ...] = ()
    conversation: str = ""

    @property
    def is_planned(self) -> bool:
        """True if its calls are planned, not sent unmodified to compare."""
        return self.arm is not ExperimentArm.CONTROL

    def is_outdated(self, layout: int) -> bool:
        """True if a planned conversation that begins now has this other layout."""
        return self.is_planned and self.layout != layout

    def with_layout(self, layout: int) -> "Plan":
        """The plan with another layout in this one's place; an unmodified one is released."""
        replaced = self.replaced + 1
        arm = self.arm if self.is_planned else ExperimentArm.RELEASED
        return msgspec.structs.replace(self, arm=arm, layout=layout, policies={}, replaced=replaced)


def merge_plans(current: Plan, more: Plan) -> Plan:
    """The current plan with the tools and policies it lacks; where both speak, it holds.

    Tools after the first 1,024 and policies after the first 64 are left out. One with a layout that
    replaced the current one's takes its place. A plan takes the place of what stands for one.
    """
    if current.conversation or more.conversation:
        return _merge_references(current, more)
    if more.replaced > current.replaced:
        return more
    current_tools = frozenset(current.tools)
    tools = dict.fromkeys(tool for tool in more.tools if tool not in current_tools)
    policies = current.policies | {
        name: policy for name, policy in more.policies.items() if name not in current.policies
    }
    return msgspec.structs.replace(
        current,
        tools=(*current.tools, *tools)[:_MAX_TOOLS],
        policies=dict(islice(policies.items(), _MAX_POLICIES)),
        onward=current.onward or more.onward,
        splits=more_splits(current.splits, more.splits),
    )


def more_splits(
    current: tuple[TextSplits, ...], more: tuple[TextSplits, ...]
) -> tuple[TextSplits, ...]:
    """The places of two at which texts are parted more often: a text that grew is parted anew."""
    return max(current, more, key=lambda splits: sum(1 + len(split.ends) for split in splits))


def fork_plan(plan: Plan, arm: ExperimentArm, tools: Sequence[str]) -> Plan:
    """The plan of a conversation that parts from the one with this plan.

    Nothing that was sent changes. Where that leaves the choice, it is in an arm of its own.

    ``tools`` are fingerprints (hex) of its tools that have an order, as its caller lists them.
    """
    inherited = msgspec.structs.replace(plan, replaced=0, onward=())
    place = {tool: index for index, tool in enumerate(plan.tools)}
    positions = [place[tool] for tool in tools if tool in place]
    tools_moved = positions != sorted(positions)
    has_moved = plan.layout > 0 or plan.shape > 0 or bool(plan.splits) or tools_moved
    if plan.arm is arm or has_moved:
        return inherited
    return Plan(arm=arm, joined=True)


def _merge_references(current: Plan, more: Plan) -> Plan:
    """The merged plan where at least one of two refers to a plan that is kept elsewhere."""
    if not current.conversation or not more.conversation:
        return more if current.conversation else current
    same = current.conversation == more.conversation
    return current if same else Plan(conversation=SEVERAL)


def assign_arm(conversation: bytes, share: float) -> ExperimentArm:
    """The arm of a conversation: the same in every process, now and later.

    A larger share only adds conversations to the control arm.

    ``share`` is the part of all conversations that is left alone, from 0 to 1.
    """
    drawn = int.from_bytes(blake2b(conversation, digest_size=8, person=_ARM_LABEL).digest(), "big")
    return ExperimentArm.CONTROL if drawn < share * _HASH_RANGE else ExperimentArm.TREATED
