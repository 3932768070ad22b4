"""A call's prompt in the order of its slots, and with its marks: from the caller's own bytes."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Final

import msgspec

from proxy.prefix.canonical import ordered
from proxy.prefix.keys import keyed
from proxy.prefix.layout import Layout, moved
from proxy.prefix.marks import given, marked, spent, takes, understood
from proxy.prefix.order import Wished, placed
from proxy.prefix.plan import Plan, Policy
from proxy.prefix.planned import Draft, Way
from proxy.prefix.positions import End, positions
from proxy.prefix.prompt import Block, Prompt, Reading, Slot, Unplannable, blocks, parsed
from proxy.prefix.regime import Regime
from proxy.prefix.strings import whole
from proxy.prefix.tags import declared, tagged

_ASSISTANT: Final = "assistant"
_BYTES_PER_TOKEN: Final = 4


class Arranged(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt in order.

    Attributes:
        plan: What holds for its conversation, with the tools it has now.
        blocks: Of the prompt.
        given: The caller's own marks, by index of their block.
        notes: What was left as it came, and why.
    """

    prompt: Prompt
    plan: Plan
    blocks: tuple[Block, ...]
    given: Mapping[int, str]
    notes: tuple[str, ...] = ()


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent.

    Attributes:
        prompt: Without the marks that were added, but with its key.
        marks: All marks, by index of their block.
        body: The chat body; the caller's own where nothing changed.
    """

    prompt: Prompt
    marks: Mapping[int, str]
    body: bytes
    notes: tuple[str, ...] = ()


def untagged(prompt: Prompt) -> Prompt:
    """The prompt without the tags that its texts are declared with; every word stays in its place.

    Raises:
        Unplannable: If a message with a tag cannot be read.
    """
    wish = {
        at: tuple(msgspec.structs.replace(piece, slot=Slot.STABLE) for piece in pieces)
        for at, pieces in declared(prompt).wish.items()
    }
    return placed(prompt, wish).prompt


def stripped(body: bytes) -> bytes:
    """A chat body without tags, for one that is not planned; as it came where it has none."""
    if not tagged(body):
        return body
    try:
        prompt = parsed(body)
        found = untagged(prompt)
    except Unplannable:
        return body
    return body if found == prompt else found.rendered()


def as_it_came(draft: Draft, plan: Plan) -> Arranged:
    """The prompt as its caller wrote it, without tags.

    Raises:
        Unplannable: If a message cannot be read.
    """
    prompt = untagged(draft.prompt) if tagged(draft.asked.body) else draft.prompt
    found, own = _read(draft, prompt)
    return Arranged(prompt=prompt, plan=plan, blocks=found, given=own)


def arranged(draft: Draft, plan: Plan, layout: Layout | None, *, late: bool) -> Arranged:
    """The prompt in the order of its slots, with its tools in theirs.

    Args:
        draft: The call.
        plan: What holds for its conversation.
        layout: The one that the plan names; None for none.
        late: Whether the upstream takes system messages after the conversation.

    Raises:
        Unplannable: If a message cannot be read.
    """
    prompt = draft.prompt
    notes: tuple[str, ...] = ()
    has_tags = any(one.tagged for one in _readings(draft, prompt))
    if layout is not None or has_tags:
        said = declared(prompt) if has_tags else Wished()
        wished = moved(prompt, layout or Layout(), draft.fingerprint, said.wish)
        found = placed(prompt, wished.wish, late=late)
        prompt, notes = found.prompt, (*said.notes, *wished.notes, *found.notes)
    if prompt.tools and not plan.joined:
        tools = ordered(prompt.tools, plan.tools, draft.fingerprint)
        prompt = msgspec.structs.replace(prompt, tools=tools.tools)
        plan = msgspec.structs.replace(plan, tools=tools.order)
        notes = (*notes, tools.why) if tools.why else notes
    own, marks = _read(draft, prompt)
    return Arranged(prompt=prompt, plan=plan, blocks=own, given=marks, notes=notes)


def _readings(draft: Draft, prompt: Prompt) -> Sequence[Reading]:
    return draft.readings.of(draft.fingerprint, prompt.messages)


def _read(draft: Draft, prompt: Prompt) -> tuple[tuple[Block, ...], Mapping[int, str]]:
    """The blocks, and the caller's own marks by index of their block."""
    readings = _readings(draft, prompt)
    found = blocks(prompt, draft.fingerprint, readings)
    return found, given(prompt, found, readings)


def _end(found: Arranged, way: Way) -> End:
    """The end of the prompt; an answer that is to be gone on with may carry a mark."""
    prompt = found.prompt
    last = len(prompt.messages) - prompt.tail - 1
    before = [block for block in found.blocks[-2 - prompt.tail :] if last - 1 <= block.message]
    ending = [block for block in reversed(before) if 0 <= block.message <= last]
    spoken = takewhile(
        lambda block: block.role == _ASSISTANT and takes(prompt, block, way.regime), ending
    )
    return End(prompt.tail, spoken=sum(1 for _ in spoken))


def sent(draft: Draft, way: Way, found: Arranged, own: Policy) -> Marked:
    """The arranged prompt as it is sent, with its key and its marks."""
    sizes = accumulate(block.size for block in found.blocks)
    ends = [size // _BYTES_PER_TOKEN for size in sizes]
    theirs = understood(found.given, found.blocks, way.regime)
    left = _left(found, theirs, way.regime)
    standing = positions(own, found.blocks, ends, left, theirs, _end(found, way))
    prompt = keyed(found.prompt, own, way.regime)
    places = [(found.blocks[mark.block], mark.ttl) for mark in standing.marks]
    full = marked(prompt, places, way.regime)
    return Marked(
        prompt=prompt,
        marks={**theirs, **{mark.block: mark.ttl for mark in standing.marks}},
        body=draft.asked.body if full == draft.prompt else _rendered(full, draft, way),
        notes=standing.notes,
    )


def _left(found: Arranged, theirs: Mapping[int, str], regime: Regime) -> Regime:
    """The regime less the marks of the caller's that share a block with another of theirs."""
    more = spent(found.prompt, regime) - len(theirs) if theirs else 0
    return (
        msgspec.structs.replace(regime, marks=max(0, regime.marks - more)) if more > 0 else regime
    )


def _rendered(full: Prompt, draft: Draft, way: Way) -> bytes:
    """The body; a cache without marks has no need of texts in parts."""
    return (full if way.regime.takes_marks else whole(full, draft.prompt)).rendered()
