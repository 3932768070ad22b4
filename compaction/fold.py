"""A chat as it came → the chat that is sent in its place.

The one entrance of the package. What comes back depends on the messages and the policy alone: the
same in every process, today and after a restart, and the beginning of what comes back for a longer
conversation, until the next fold.
"""

from bisect import bisect
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec
import orjson

from compaction.deciding.proof import Evidence
from compaction.facts.fact import Fact
from compaction.facts.region import Region
from compaction.facts.segment import Segment
from compaction.losses import losses, needed
from compaction.memory import Memory
from compaction.policy import Mode, Policy
from compaction.reading.chain import chain
from compaction.reading.message import Count, Unfoldable
from compaction.reading.size import estimate
from compaction.talk import Talk, talk
from compaction.walk import Fold, Notes, State, Walk, unnoted

#: Changes whenever the same conversation would be folded to other bytes than before.
VERSION: Final = 5
_UNTOUCHED: Final = frozenset({Mode.OFF, Mode.NATIVE})


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent, and why.

    Attributes:
        messages: In place of the caller's; its own objects where they are as they came.
        changed: Whether anything is sent otherwise than it came.
        reason: Why it was folded at this call or was not, as a code.
        folded_why: Why its newest part was folded, at this call or earlier; "" where none was.
        tokens_before: Tokens of the caller's prompt.
        tokens_after: Tokens of what is sent.
        folded: Messages that segments stand for.
        segments: What stands for them.
        reset: Whether this is the first call after a fold: its prefix moves, once.
        break_even: Calls that pay a fold back, at this call; None where none do or none was due.
        evidence: What the newest tool calls needed of what was folded.
        newest: What identifies the part folded last; b"" for none.
        region: That part, where it was folded at this very call; None where it was not.
        lost: What the folded part named and what is sent does not; only where that was asked.
    """

    messages: tuple[bytes, ...]
    changed: bool
    reason: str
    tokens_before: int
    tokens_after: int
    folded: int = 0
    segments: tuple[Segment, ...] = ()
    reset: bool = False
    break_even: float | None = None
    evidence: Evidence | None = None
    newest: bytes = b""
    region: Region | None = None
    lost: tuple[str, ...] = ()
    folded_why: str = ""

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All that the segments say."""
        return tuple(fact for segment in self.segments for fact in segment.facts)


class Around(msgspec.Struct, frozen=True, kw_only=True):
    """What stands around a conversation.

    Attributes:
        scope: Whose it is; nothing that is known of others' is looked at.
        fixed: Tokens of what stands before the messages: the tools.
        count: How tokens are counted.
        notes: What a model found earlier.
    """

    scope: bytes = b""
    fixed: int = 0
    count: Count = estimate
    notes: Notes = unnoted


_NOTHING: Final = Around()


def fold(
    raws: Sequence[bytes],
    policy: Policy,
    *,
    memory: Memory,
    around: Around = _NOTHING,
    names_lost: bool = False,
) -> Folded:
    """The messages as they are sent.

    Args:
        raws: Each message of a chat as JSON.
        policy: What holds for it.
        memory: What is known of earlier calls; conversations share nothing but time in it.
        around: What stands around it.
        names_lost: Whether to say what is lost, which takes long.

    Raises:
        Unfoldable: If it has to go as it came; says why.
    """
    messages = memory.readings.messages(raws, around.count, around.scope)
    if policy.mode in _UNTOUCHED:
        tokens = around.fixed + sum(message.tokens for message in messages)
        return Folded(
            messages=tuple(raws),
            changed=False,
            reason=policy.mode.value,
            tokens_before=tokens,
            tokens_after=tokens,
        )
    if any(message.signed for message in messages):
        raise Unfoldable("signed")
    said = talk(messages)
    keys = chain([message.digest for message in messages], _root(policy, around))
    walk = Walk(
        talk=said,
        policy=policy,
        fixed=around.fixed,
        count=around.count,
        notes=around.notes,
        keys=keys,
        find=memory.findings.of(around.scope),
    )
    before = _known(memory, walk)
    state = walk.to_end(before or walk.begun())
    memory.keep(keys[-1], state)
    return _folded(walk, state, names_lost=names_lost)


def _root(policy: Policy, around: Around) -> bytes:
    """What makes equal messages another conversation."""
    held = msgspec.msgpack.encode((VERSION, policy, around.scope, around.fixed))
    return blake2b(held, digest_size=16).digest()


def _known(memory: Memory, walk: Walk) -> State | None:
    """How the longest beginning stood that is known.

    A call that its client broke off to say more, and made again, is none by now: what was decided
    at it does not hold, or another process, which never saw it, would decide otherwise.
    """
    points = list(walk.talk.points(0))
    for size in range(len(walk.keys), 0, -1):
        found = memory.find(walk.key(size))
        if found is not None and (size == len(walk.keys) or found.calls == bisect(points, size)):
            return found
        if walk.policy.once:
            return None
    return None


def _folded(walk: Walk, state: State, *, names_lost: bool) -> Folded:
    said = walk.talk
    folds = state.folds
    sent = _sent(walk, state)
    came = [message.raw for message in said.messages]
    changed = len(sent) != len(came) or any(a is not b for a, b in zip(sent, came, strict=True))
    last = folds[-1] if folds else None
    head = walk.fixed + said.upto[said.lead]
    reset = last is not None and last.at == state.tail.end
    return Folded(
        messages=tuple(sent),
        changed=changed,
        reason=state.verdict.reason.value,
        tokens_before=walk.fixed + said.upto[-1],
        tokens_after=head + sum(each.tokens for each in folds) + state.tail.tokens,
        folded=sum(each.segment.end - each.segment.start - len(each.kept) for each in folds),
        segments=tuple(each.segment for each in folds),
        reset=reset,
        break_even=state.verdict.break_even,
        evidence=needed(walk, state) if folds else None,
        newest=walk.key(last.segment.end) if last is not None else b"",
        region=_region(said, last) if reset and last is not None else None,
        lost=losses(walk, state, sent) if names_lost and folds else (),
        folded_why=last.reason.value if last is not None and last.reason is not None else "",
    )


def _region(said: Talk, last: Fold) -> Region:
    """The part that was folded, as it came."""
    return Region(
        messages=said.messages,
        units=said.units,
        start=last.segment.start,
        end=last.segment.end,
        held=frozenset(last.kept),
    )


def _sent(walk: Walk, state: State) -> list[bytes]:
    """Each message that is sent."""
    messages = walk.talk.messages
    sent = [message.raw for message in messages[: walk.talk.lead]]
    for each in state.folds:
        sent.append(_message(each.segment.text))
        sent += [messages[at].raw for at in each.kept]
    return sent + state.tail.raws(walk.talk)


def _message(text: str) -> bytes:
    return b'{"role":"user","content":' + orjson.dumps(text) + b"}"
