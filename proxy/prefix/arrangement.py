"""A call's prompt in the order of its slots, and with its marks: from the caller's own bytes."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Final

import msgspec

from proxy.caches.regime import Regime
from proxy.prefix.breakpoints.keys import add_cache_key, is_explicit
from proxy.prefix.breakpoints.optimum import Mark
from proxy.prefix.breakpoints.placement import MarkPlacement, PromptEnd, place_marks
from proxy.prefix.breakpoints.plan import BreakpointPolicy, Plan
from proxy.prefix.layouts.canonical import order_tools
from proxy.prefix.layouts.layout import Layout, find_moves
from proxy.prefix.layouts.named import named_slots
from proxy.prefix.layouts.order import RequestedMoves, place_pieces
from proxy.prefix.layouts.tags import declared_slots
from proxy.prefix.planned import Draft, PlanningTarget
from proxy.prefix.prediction.prompt_digests import MAX_LEFT_OUT
from proxy.prefix.prediction.sent import TextLines
from proxy.prefix.prompts.bare import without_marks
from proxy.prefix.prompts.items import freeze_instructions, is_stored
from proxy.prefix.prompts.marks import (
    MARKS,
    add_marks,
    caller_marks,
    can_take_mark,
    count_caller_marks,
    route_marks,
)
from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.prompt import (
    ASSISTANT,
    BYTES_PER_TOKEN,
    MessageReading,
    Prompt,
    PromptBlock,
    PromptSlot,
    conversation_blocks,
    count_leading_roles,
    parse_prompt,
)
from proxy.prefix.prompts.strings import join_texts
from proxy.prefix.prompts.tagged import may_hold_tags

_NOWHERE: Final = "a mark was left out: its message can carry none"


class ArrangedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt in order.

    Attributes:
        plan: What holds for its conversation, with the tools it has now.
        blocks: Of the prompt.
        bare: The same without marks.
        lines: The lines of its leading texts, by index of their block.
        given: The caller's own marks, by index of their block.
        notes: What was left unmodified, and why.
    """

    prompt: Prompt
    plan: Plan
    blocks: Sequence[PromptBlock]
    bare: tuple[PromptBlock, ...]
    lines: Mapping[int, TextLines]
    given: Mapping[int, str]
    notes: tuple[str, ...] = ()


class MarkedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """The prompt and body that are sent.

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


def remove_tags(prompt: Prompt) -> Prompt:
    """The prompt without the tags that its texts are declared with; every word stays in its place.

    Raises:
        Unplannable: If a message with a tag cannot be read.
    """
    wish = {
        at: tuple(msgspec.structs.replace(piece, slot=PromptSlot.STABLE) for piece in pieces)
        for at, pieces in declared_slots(prompt).wish.items()
    }
    return place_pieces(prompt, wish).prompt


def remove_body_tags(body: bytes) -> bytes:
    """Return a body without tags, for one that is not planned; unmodified where it has none."""
    if not may_hold_tags(body):
        return body
    try:
        prompt = parse_prompt(body, goes_on=True)
        found = remove_tags(prompt)
    except Unplannable:
        return body
    return body if found == prompt else found.render()


def unmodified_prompt(draft: Draft, plan: Plan) -> ArrangedPrompt:
    """Return the prompt unmodified but for its tags.

    Raises:
        Unplannable: If a message cannot be read.
    """
    prompt = remove_tags(draft.prompt) if may_hold_tags(draft.asked.body) else draft.prompt
    return _read(draft, prompt, plan, ())


def arrange_prompt(
    draft: Draft, plan: Plan, layout: Layout | None, *, late: bool
) -> ArrangedPrompt:
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
    said = _declared_pieces(draft)
    notes = said.notes
    if layout is not None or said.wish:
        wished = find_moves(prompt, layout or Layout(), draft.fingerprint, said.wish)
        found = place_pieces(prompt, wished.wish, late=late)
        prompt, notes = found.prompt, (*said.notes, *wished.notes, *found.notes)
    if prompt.tools and not plan.joined:
        tools = order_tools(prompt.tools, plan.tools, draft.fingerprint, as_came=plan.as_came)
        prompt = msgspec.structs.replace(prompt, tools=tools.tools)
        if tools.order != plan.tools:
            plan = msgspec.structs.replace(plan, tools=tools.order)
        notes = (*notes, tools.why) if tools.why else notes
    return _read(draft, prompt, plan, notes)


def conversation_tokens(found: ArrangedPrompt) -> list[int]:
    """Tokens of the conversation without so many of its last blocks, by how many."""
    kept = len(found.blocks) - found.prompt.tail
    sizes = [block.size for block in found.blocks[:kept] if block.slot is PromptSlot.VARIABLE]
    ends = [*accumulate(sizes, initial=0)][::-1]
    return [
        (ends[at] if at < len(ends) else 0) // BYTES_PER_TOKEN for at in range(MAX_LEFT_OUT + 1)
    ]


def _declared_pieces(draft: Draft) -> RequestedMoves:
    """The slots that the caller declares, within its texts or else beside them."""
    prompt = draft.prompt
    beside = named_slots(prompt, draft.asked.slots)
    if not any(one.tagged for one in draft.known):
        return beside
    within = declared_slots(prompt)
    return RequestedMoves({**beside.wish, **within.wish}, (*beside.notes, *within.notes))


def _readings(draft: Draft, prompt: Prompt) -> Sequence[MessageReading]:
    """The readings of each message of the draft's prompt, unmodified or arranged."""
    if prompt.messages is draft.prompt.messages:
        return draft.known
    return draft.readings.readings_of(draft.fingerprint, prompt.messages)


def _read(draft: Draft, prompt: Prompt, plan: Plan, notes: tuple[str, ...]) -> ArrangedPrompt:
    """The prompt that was put in order, with its blocks and the caller's own marks."""
    prompt = _freeze_instructions(prompt)
    readings = _readings(draft, prompt)
    first = count_leading_roles(one.role for one in readings)
    front = draft.readings.fronts.read_prefix(prompt, draft.fingerprint, first)
    spoken = conversation_blocks(prompt, readings, first)
    blocks = (*front.blocks, *spoken)
    may_mark = front.may_mark or MARKS[0] in prompt.fields or any(one.may_mark for one in readings)
    return ArrangedPrompt(
        prompt=prompt,
        plan=plan,
        blocks=blocks,
        bare=(*front.bare, *without_marks(spoken, [one.bare for one in readings[first:]])),
        lines=front.lines,
        given=caller_marks(prompt, blocks, readings) if may_mark else {},
        notes=notes,
    )


def _freeze_instructions(prompt: Prompt) -> Prompt:
    """The prompt; instructions that its provider keeps do not move for a mark, either."""
    if not prompt.messages or not is_stored(prompt.fields):
        return prompt
    first, *rest = prompt.messages
    still = freeze_instructions(first)
    return prompt if still is first else msgspec.structs.replace(prompt, messages=(still, *rest))


def _end(found: ArrangedPrompt, way: PlanningTarget, back: int) -> PromptEnd:
    """The end of the prompt; an answer that is to be gone on with may carry a mark.

    So may one that stands before the last blocks that later calls do not repeat.
    """
    prompt = found.prompt
    beyond = prompt.tail + back
    last = len(prompt.messages) - beyond - 1
    before = [block for block in found.blocks[-2 - beyond :] if last - 1 <= block.message]
    ending = [block for block in reversed(before) if 0 <= block.message <= last]
    spoken = takewhile(
        lambda block: block.role == ASSISTANT and can_take_mark(prompt, block, way.regime), ending
    )
    return PromptEnd(prompt.tail, spoken=sum(1 for _ in spoken))


def mark_prompt(
    draft: Draft,
    way: PlanningTarget,
    found: ArrangedPrompt,
    own: BreakpointPolicy,
    marks: Sequence[Mark] | None = None,
) -> MarkedPrompt:
    """The arranged prompt as it is sent, with its key and its marks.

    Args:
        draft: The call.
        way: Where it goes.
        found: Its prompt, in order.
        own: What its conversation marks; nothing where it is empty.
        marks: What is marked in place of that; None for what the policy says.
    """
    sizes = accumulate([block.size for block in found.blocks])
    ends = [size // BYTES_PER_TOKEN for size in sizes]
    theirs = route_marks(found.given, found.blocks, way.regime)
    left = _free_marks(found, theirs, way.regime)
    end = _end(found, way, own.back) if own.history else PromptEnd(found.prompt.tail)
    prompt = add_cache_key(found.prompt, own, way.regime)
    own = msgspec.structs.replace(own, explicit=is_explicit(prompt, way.regime))
    standing = (
        place_marks(own, found.blocks, ends, left, theirs, end)
        if marks is None
        else MarkPlacement(tuple(marks))
    )
    places = [(found.blocks[mark.block], mark.ttl) for mark in standing.marks]
    full = add_marks(prompt, places, way.regime)
    stand = {mark.block: mark.ttl for mark in standing.marks if _is_set(found, mark, prompt, full)}
    return MarkedPrompt(
        prompt=prompt,
        marks={**theirs, **stand},
        explicit=own.explicit,
        body=draft.asked.body if full == draft.prompt else _render_body(full, draft, way),
        notes=(*standing.notes, *([_NOWHERE] if len(stand) < len(standing.marks) else ())),
    )


def _is_set(found: ArrangedPrompt, mark: Mark, prompt: Prompt, full: Prompt) -> bool:
    """True if a mark was written where it was to be: not every message can carry one."""
    block = found.blocks[mark.block]
    if block.message < 0:
        return full.tools[block.part] is not prompt.tools[block.part]
    return full.messages[block.message] is not prompt.messages[block.message]


def _free_marks(found: ArrangedPrompt, theirs: Mapping[int, str], regime: Regime) -> Regime:
    """The regime less the marks of the caller's that share a block with another of theirs."""
    more = count_caller_marks(found.prompt, regime) - len(theirs) if theirs else 0
    return (
        msgspec.structs.replace(regime, marks=max(0, regime.marks - more)) if more > 0 else regime
    )


def _render_body(full: Prompt, draft: Draft, way: PlanningTarget) -> bytes:
    """The body; a cache without marks has no need of texts in parts."""
    return (full if way.regime.takes_marks else join_texts(full, draft.prompt)).render()
