"""A call's prompt in the order of its slots, and with its marks: from the caller's own bytes."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Final

import msgspec

from proxy.caches.regime import Regime
from proxy.prefix.breakpoints.keys import is_explicit, keyed
from proxy.prefix.breakpoints.optimum import Mark
from proxy.prefix.breakpoints.placement import End, positions
from proxy.prefix.breakpoints.plan import Plan, Policy
from proxy.prefix.layouts.canonical import ordered
from proxy.prefix.layouts.layout import Layout, moved
from proxy.prefix.layouts.named import named
from proxy.prefix.layouts.order import Wished, placed
from proxy.prefix.layouts.tags import declared
from proxy.prefix.planned import Draft, Way
from proxy.prefix.prediction.sent import Lines
from proxy.prefix.prompts.bare import unmarked
from proxy.prefix.prompts.items import fixed, is_stored
from proxy.prefix.prompts.marks import MARKS, given, marked, spent, takes, understood
from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.prompt import (
    ASSISTANT,
    BYTES_PER_TOKEN,
    Block,
    Prompt,
    Reading,
    Slot,
    led,
    parsed,
    talk,
)
from proxy.prefix.prompts.strings import whole
from proxy.prefix.prompts.tagged import tagged

_NOWHERE: Final = "a mark was left out: its message can carry none"


class Arranged(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt in order.

    Attributes:
        plan: What holds for its conversation, with the tools it has now.
        blocks: Of the prompt.
        bare: The same without marks.
        lines: The lines of its leading texts, by index of their block.
        given: The caller's own marks, by index of their block.
        notes: What was left as it came, and why.
    """

    prompt: Prompt
    plan: Plan
    blocks: Sequence[Block]
    bare: tuple[Block, ...]
    lines: Mapping[int, Lines]
    given: Mapping[int, str]
    notes: tuple[str, ...] = ()


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent.

    Attributes:
        prompt: Without the marks that were added, but with its key.
        marks: All marks, by index of their block.
        explicit: Whether the provider's own choice of breakpoints is switched off (OpenAI).
        body: The chat body; the caller's own where nothing changed.
    """

    prompt: Prompt
    marks: Mapping[int, str]
    explicit: bool
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
    """A body without tags, for one that is not planned; as it came where it has none."""
    if not tagged(body):
        return body
    try:
        prompt = parsed(body, goes_on=True)
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
    return _read(draft, prompt, plan, ())


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
    said = _declared(draft)
    notes = said.notes
    if layout is not None or said.wish:
        wished = moved(prompt, layout or Layout(), draft.fingerprint, said.wish)
        found = placed(prompt, wished.wish, late=late)
        prompt, notes = found.prompt, (*said.notes, *wished.notes, *found.notes)
    if prompt.tools and not plan.joined:
        tools = ordered(prompt.tools, plan.tools, draft.fingerprint, as_came=plan.as_came)
        prompt = msgspec.structs.replace(prompt, tools=tools.tools)
        if tools.order != plan.tools:
            plan = msgspec.structs.replace(plan, tools=tools.order)
        notes = (*notes, tools.why) if tools.why else notes
    return _read(draft, prompt, plan, notes)


def _declared(draft: Draft) -> Wished:
    """What the caller says of its texts' slots: within them, or else beside them."""
    prompt = draft.prompt
    beside = named(prompt, draft.asked.slots)
    if not any(one.tagged for one in draft.known):
        return beside
    within = declared(prompt)
    return Wished({**beside.wish, **within.wish}, (*beside.notes, *within.notes))


def _readings(draft: Draft, prompt: Prompt) -> Sequence[Reading]:
    """What is known of each message of the draft's prompt, as it came or as it was arranged."""
    if prompt.messages is draft.prompt.messages:
        return draft.known
    return draft.readings.of(draft.fingerprint, prompt.messages)


def _read(draft: Draft, prompt: Prompt, plan: Plan, notes: tuple[str, ...]) -> Arranged:
    """The prompt that was put in order, with its blocks and the caller's own marks."""
    prompt = _anchored(prompt)
    readings = _readings(draft, prompt)
    first = led(one.role for one in readings)
    front = draft.readings.fronts.of(prompt, draft.fingerprint, first)
    spoken = talk(prompt, readings, first)
    blocks = (*front.blocks, *spoken)
    may_mark = front.may_mark or MARKS[0] in prompt.fields or any(one.may_mark for one in readings)
    return Arranged(
        prompt=prompt,
        plan=plan,
        blocks=blocks,
        bare=(*front.bare, *unmarked(spoken, [one.bare for one in readings[first:]])),
        lines=front.lines,
        given=given(prompt, blocks, readings) if may_mark else {},
        notes=notes,
    )


def _anchored(prompt: Prompt) -> Prompt:
    """The prompt; instructions that its provider keeps do not move for a mark, either."""
    if not prompt.messages or not is_stored(prompt.fields):
        return prompt
    first, *rest = prompt.messages
    still = fixed(first)
    return prompt if still is first else msgspec.structs.replace(prompt, messages=(still, *rest))


def _end(found: Arranged, way: Way, back: int) -> End:
    """The end of the prompt; an answer that is to be gone on with may carry a mark.

    So may one that stands before the last blocks that later calls do not repeat.
    """
    prompt = found.prompt
    beyond = prompt.tail + back
    last = len(prompt.messages) - beyond - 1
    before = [block for block in found.blocks[-2 - beyond :] if last - 1 <= block.message]
    ending = [block for block in reversed(before) if 0 <= block.message <= last]
    spoken = takewhile(
        lambda block: block.role == ASSISTANT and takes(prompt, block, way.regime), ending
    )
    return End(prompt.tail, spoken=sum(1 for _ in spoken))


def sent(draft: Draft, way: Way, found: Arranged, own: Policy) -> Marked:
    """The arranged prompt as it is sent, with its key and its marks; an empty policy adds none."""
    sizes = accumulate([block.size for block in found.blocks])
    ends = [size // BYTES_PER_TOKEN for size in sizes]
    theirs = understood(found.given, found.blocks, way.regime)
    left = _left(found, theirs, way.regime)
    end = _end(found, way, own.back) if own.history else End(found.prompt.tail)
    prompt = keyed(found.prompt, own, way.regime)
    own = msgspec.structs.replace(own, explicit=is_explicit(prompt, way.regime))
    standing = positions(own, found.blocks, ends, left, theirs, end)
    places = [(found.blocks[mark.block], mark.ttl) for mark in standing.marks]
    full = marked(prompt, places, way.regime)
    stand = {mark.block: mark.ttl for mark in standing.marks if _stands(found, mark, prompt, full)}
    return Marked(
        prompt=prompt,
        marks={**theirs, **stand},
        explicit=own.explicit,
        body=draft.asked.body if full == draft.prompt else _rendered(full, draft, way),
        notes=(*standing.notes, *([_NOWHERE] if len(stand) < len(standing.marks) else ())),
    )


def _stands(found: Arranged, mark: Mark, prompt: Prompt, full: Prompt) -> bool:
    """True if a mark was written where it was to be: not every message can carry one."""
    block = found.blocks[mark.block]
    if block.message < 0:
        return full.tools[block.part] is not prompt.tools[block.part]
    return full.messages[block.message] is not prompt.messages[block.message]


def _left(found: Arranged, theirs: Mapping[int, str], regime: Regime) -> Regime:
    """The regime less the marks of the caller's that share a block with another of theirs."""
    more = spent(found.prompt, regime) - len(theirs) if theirs else 0
    return (
        msgspec.structs.replace(regime, marks=max(0, regime.marks - more)) if more > 0 else regime
    )


def _rendered(full: Prompt, draft: Draft, way: Way) -> bytes:
    """The body; a cache without marks has no need of texts in parts."""
    return (full if way.regime.takes_marks else whole(full, draft.prompt)).rendered()
