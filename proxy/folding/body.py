"""A chat body → the body that is sent in its place, and why; pure but for what it remembers."""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from compaction.fold import Around, Folded
from compaction.guards import own
from compaction.memory import Memory
from compaction.policy import Mode, Policy
from compaction.reading.valid import faults
from proxy.call import Call
from proxy.folds import Fold, unfolded
from proxy.prefix.arms import arm
from proxy.prefix.layouts.named import FIELD
from proxy.prefix.marking.plan import Arm
from proxy.prefix.origin import Origin
from proxy.prefix.planner import fingerprint
from proxy.prefix.prompts.conversation import conversation, opened
from proxy.prefix.prompts.prompt import (
    ASSISTANT,
    BYTES_PER_TOKEN,
    Prompt,
    led,
    parsed,
    read,
)
from proxy.prefix.prompts.tagged import tagged

CONTROL: Final = "control"
DRY: Final = "dry_run"
GREW: Final = "grew"
INVALID: Final = "invalid"


class Folds(Protocol):
    """``compaction.fold.fold``, or what stands in for it."""

    def __call__(
        self,
        raws: Sequence[bytes],
        policy: Policy,
        *,
        memory: Memory,
        around: Around,
    ) -> Folded:
        """The messages as they are sent.

        Raises:
            Unfoldable: If they go as they came.
        """
        ...


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A call to fold.

    Attributes:
        policy: By which policy.
        is_dry: Whether it is only reckoned.
        share: The part of all conversations that is sent as it came, to compare with.
        secret: Makes the names of conversations.
    """

    call: Call
    policy: Policy
    is_dry: bool
    share: float
    secret: bytes


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it.

    Attributes:
        conversation: Which it is, as planning names it; b"" where that was not asked.
        news: What is sent, where a part was folded at this very call that a model may note.
    """

    fold: Fold
    conversation: bytes = b""
    news: Folded | None = None


def made(task: Task, fold: Folds, memory: Memory) -> Made:
    """What is sent of a call.

    Raises:
        Unplannable: If its body cannot be read, or not be written again as it is.
        Unfoldable: If its messages go as they came.
    """
    prompt = parsed(task.call.body)
    roles = [read(raw).role for raw in prompt.messages]
    first = led(roles)
    why = _left_alone(task.call, prompt, first)
    if why:
        return Made(fold=unfolded(task.policy.mode.value, why))
    opening = prompt.messages[first]
    name = _name(task, prompt, opening)
    fixed = sum(map(len, prompt.tools)) // BYTES_PER_TOKEN
    around = Around(scope=task.call.key.team.encode(), fixed=fixed)
    found = fold(prompt.messages, task.policy, memory=memory, around=around)
    why = _kept(task, name, prompt, found)
    if why:
        return Made(fold=_said(task, found, why), conversation=name)
    body = msgspec.structs.replace(prompt, messages=found.messages).rendered()
    origin = Origin(opening=opening, turns=roles.count(ASSISTANT), reset=found.reset)
    sent = msgspec.structs.replace(
        _said(task, found, found.reason),
        sent=msgspec.structs.replace(task.call, body=body, origin=origin),
        is_folded=True,
        reset=found.reset,
        break_even=found.break_even,
    )
    news = found if task.policy.mode is Mode.FACTS_MODEL and found.region is not None else None
    return Made(fold=sent, conversation=name, news=news)


def _kept(task: Task, name: bytes, prompt: Prompt, found: Folded) -> str:
    """Why the call goes as it came although it was reckoned; "" where less is sent."""
    if not found.changed:
        return found.reason
    if arm(name, task.share) is Arm.CONTROL:
        return CONTROL
    if found.tokens_after > found.tokens_before:
        return GREW
    # The last look: nothing goes out that a provider would find more wrong with than came.
    if faults(found.messages, prompt.messages):
        return INVALID
    return DRY if task.is_dry else ""


def _said(task: Task, found: Folded, why: str) -> Fold:
    """What was reckoned of a call, and why it goes as it came, or shorter."""
    proof = found.evidence
    known = unfolded(task.policy.mode.value, why)
    return msgspec.structs.replace(
        known,
        why=f"{DRY}: {found.reason}" if why == DRY else why,
        before=found.tokens_before,
        after=found.tokens_after,
        needed=proof.needed if proof is not None else 0,
        lost=proof.lost if proof is not None else 0,
    )


def _left_alone(call: Call, prompt: Prompt, first: int) -> str:
    """Why a call is not looked at any further; "" where it is.

    Slots that a caller names stand at messages that folding may take away.
    """
    if first == len(prompt.messages):
        return "nothing_said"
    if why := own(prompt.fields, prompt.messages):
        return why
    names = call.slots.strip() or FIELD.encode() in prompt.fields.get("metadata", b"")
    tags = tagged(call.body) and any(map(tagged, prompt.messages[first:]))
    return "slots" if names or tags else ""


def _name(task: Task, prompt: Prompt, opening: bytes) -> bytes:
    """The conversation's name, as planning gives it."""
    call = task.call
    team = fingerprint(task.secret, call.key.team)
    who = (call.key.team, call.feature, call.key.id, call.conversation)
    return conversation(prompt, who, team, opened(opening, team))
