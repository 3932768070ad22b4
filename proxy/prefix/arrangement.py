"""Orders a call's prompt by its slots and writes its cache marks, from the caller's own bytes."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final

import msgspec

from proxy.caches.regime import Regime
from proxy.prefix.breakpoints.caller_marks import free_splits, marks_left, without_spare_mark
from proxy.prefix.breakpoints.placement import place_marks
from proxy.prefix.breakpoints.plan import BreakpointPolicy, Plan
from proxy.prefix.breakpoints.policies import add_cache_key, is_explicit, requested_lifetime
from proxy.prefix.layouts.agent_shapes import (
    TextSplits,
    part_instructions,
    split_instructions,
    split_message,
    with_message,
)
from proxy.prefix.layouts.declared_slots import declared_slots, named_slots
from proxy.prefix.layouts.layout import Layout, find_moves
from proxy.prefix.layouts.order import RequestedMoves, place_pieces
from proxy.prefix.layouts.tool_order import order_tools
from proxy.prefix.message_cache import Beginning
from proxy.prefix.planned import Draft, PlanningTarget
from proxy.prefix.prediction.changes import prefix_parameters
from proxy.prefix.prediction.sent_call import SentCall, TextLines
from proxy.prefix.prompts.fingerprints import name_digest, without_marks
from proxy.prefix.prompts.items import freeze_instructions, is_stored
from proxy.prefix.prompts.marks import add_marks, caller_marks, route_marks
from proxy.prefix.prompts.objects import Unplannable, is_plain_text, may_hold_tags, replace_parts
from proxy.prefix.prompts.prompt import (
    BYTES_PER_TOKEN,
    Prompt,
    PromptBlock,
    PromptSlot,
    content_parts,
    count_leading,
    count_leading_roles,
    parse_message,
    parse_prompt,
    part_text,
)

_QUOTE: Final = b'"'
#: Bytes kept of the model's name that a caller asked for.
_MAX_MODEL_BYTES: Final = 100
_MARK_LEFT_OUT_NOTE: Final = "a mark was left out: its message can carry none"


def join_texts(prompt: Prompt, came: Prompt) -> Prompt:
    """The prompt with the texts of its instructions and of its tail as strings where they came so.

    Its slots are as they were, but ``semi`` points nowhere any more. It depends on nothing that
    changes within a conversation, except in the tail.

    ``came`` is the prompt as its caller wrote it.

    Raises:
        Unplannable: If a message cannot be read.
    """
    first, messages = count_leading(prompt), list(prompt.messages)
    if prompt.semi is not None and _is_text(came.messages[: count_leading(came)]):
        messages[:first] = map(_join_message_texts, messages[:first])
    if prompt.tail and _is_text(came.messages[-1:]):
        messages[-prompt.tail :] = map(_join_message_texts, messages[-prompt.tail :])
    if tuple(messages) == prompt.messages:
        return prompt
    return msgspec.structs.replace(prompt, messages=tuple(messages), semi=None)


def _is_text(messages: Sequence[bytes]) -> bool:
    return all(bytes(parse_message(raw).content)[:1] == _QUOTE for raw in messages)


def _join_message_texts(message: bytes) -> bytes:
    """The message with its texts as one; as it is where it holds anything else."""
    parts = content_parts(parse_message(message).content)
    words = [part_text(part) for part in parts if is_plain_text(part)]
    text = "".join(word for word in words if word is not None)
    if len(parts) < 2 or len(words) < len(parts) or None in words:
        return message
    return replace_parts(message, [msgspec.json.encode(text)])


class ArrangedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt in order.

    Attributes:
        lines: The lines of its leading texts, by index of their block.
        given: The caller's own marks, by index of their block.
        joined: Its messages as they are sent without any mark; () for those of the prompt.
    """

    prompt: Prompt
    plan: Plan
    blocks: Sequence[PromptBlock]
    bare: tuple[PromptBlock, ...]
    lines: Mapping[int, TextLines]
    given: Mapping[int, str]
    notes: tuple[str, ...] = ()
    joined: tuple[bytes, ...] = ()


class MarkedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """The prompt and body that are sent.

    Attributes:
        prompt: Without the marks that were added, but with its key.
        marks: All marks, by index of their block.
        explicit: True if the provider's own choice of breakpoints is switched off (OpenAI).
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
    moves = {
        index: tuple(msgspec.structs.replace(piece, slot=PromptSlot.STABLE) for piece in pieces)
        for index, pieces in declared_slots(prompt).moves.items()
    }
    return place_pieces(prompt, moves).prompt


def remove_body_tags(body: bytes, *, is_native: bool = False) -> bytes:
    """Return a body without tags, for one that is not planned; unmodified where it has none."""
    if not may_hold_tags(body):
        return body
    try:
        prompt = parse_prompt(body, goes_on=True, is_native=is_native)
        untagged = remove_tags(prompt)
    except Unplannable:
        return body
    return body if untagged == prompt else untagged.render()


def unmodified_prompt(draft: Draft, plan: Plan) -> ArrangedPrompt:
    """Return the prompt unmodified but for its tags.

    Raises:
        Unplannable: If a message cannot be read.
    """
    prompt = remove_tags(draft.prompt) if may_hold_tags(draft.request.body) else draft.prompt
    return _read_arranged(draft, prompt, plan, ())


def arrange_prompt(
    draft: Draft, plan: Plan, layout: Layout | None, *, late: bool, regime: Regime | None = None
) -> ArrangedPrompt:
    """The prompt in the order of its slots, with its tools in theirs.

    ``late`` is true if the upstream takes system messages after the conversation. For marks that
    its cache, ``regime``, takes, a text may be parted.

    Raises:
        Unplannable: If a message cannot be read.
    """
    prompt = draft.prompt
    declared = declared_pieces(draft)
    parts = regime is not None and regime.takes_marks
    notes, splits = declared.notes, plan.splits if parts else ()
    if layout is not None or declared.moves:
        allowed = find_moves(prompt, layout or Layout(), draft.fingerprint, declared.moves)
        placement = place_pieces(prompt, allowed.moves, late=late)
        prompt, notes, splits = (
            placement.prompt,
            (*declared.notes, *allowed.notes, *placement.notes),
            (),
        )
    elif plan.shape and parts:
        prompt = part_instructions(prompt)
    else:
        prompt = split_instructions(prompt, splits)
    if prompt.tools and not plan.joined:
        tools = order_tools(prompt.tools, plan.tools, draft.fingerprint)
        prompt = msgspec.structs.replace(prompt, tools=tools.tools)
        if tools.order != plan.tools:
            plan = msgspec.structs.replace(plan, tools=tools.order)
        notes = (*notes, tools.why) if tools.why else notes
    return _read_arranged(draft, prompt, plan, notes, splits)


def declared_pieces(draft: Draft) -> RequestedMoves:
    """The slots that the caller declares, within its texts or else beside them.

    Raises:
        Unplannable: If a message that is declared cannot be read.
    """
    prompt = draft.prompt
    beside = named_slots(prompt, draft.request.slots)
    if draft.beginning.is_plain or True not in [one.tagged for one in draft.known]:
        return beside
    within = declared_slots(prompt)
    return RequestedMoves({**beside.moves, **within.moves}, (*beside.notes, *within.notes))


def _read_arranged(
    draft: Draft,
    prompt: Prompt,
    plan: Plan,
    notes: tuple[str, ...],
    splits: Sequence[TextSplits] = (),
) -> ArrangedPrompt:
    """The prompt that was put in order, with its blocks and the caller's own marks."""
    prompt = _freeze_instructions(prompt)
    readings, beginning = draft.known, draft.beginning
    if prompt.messages is not draft.prompt.messages:
        readings = draft.readings.readings_of(draft.fingerprint, prompt.messages)
        beginning = Beginning(())
    first = count_leading_roles(one.role for one in readings)
    front = draft.readings.fronts.read_prefix(prompt, draft.fingerprint, first)
    spoken = beginning.conversation_blocks(prompt, readings, first)
    bare: Sequence[PromptBlock] = spoken
    if not beginning.is_plain:
        bare = without_marks(spoken, [one.bare for one in readings[first:]])
    for split in [split for split in splits if split.message >= first]:
        parted = split_message(prompt, split)
        if parted is not None:
            prompt, index = with_message(prompt, split.message, parted.raw), split.message - first
            start = draft.readings.readings_of(draft.fingerprint, (parted.first,))[0]
            pieces = parted.blocks(spoken[index], start, draft.fingerprint)
            spoken, bare = ([*row[:index], *pieces, *row[index + 1 :]] for row in (spoken, bare))
    blocks = (*front.blocks, *spoken)
    is_plain = beginning.is_plain or True not in [one.may_mark for one in readings]
    return ArrangedPrompt(
        prompt=prompt,
        plan=plan,
        blocks=blocks,
        bare=(*front.bare, *bare),
        lines=front.lines,
        given=caller_marks(prompt, blocks, readings) if front.may_mark or not is_plain else {},
        notes=notes,
        joined=draft.prompt.messages if splits and not plan.shape else (),
    )


def _freeze_instructions(prompt: Prompt) -> Prompt:
    """The prompt; instructions that its provider keeps do not move for a mark, either."""
    if not prompt.messages or not is_stored(prompt.fields):
        return prompt
    first, *rest = prompt.messages
    still = freeze_instructions(first)
    return prompt if still is first else msgspec.structs.replace(prompt, messages=(still, *rest))


def mark_prompt(
    draft: Draft,
    target: PlanningTarget,
    arrangement: ArrangedPrompt,
    policy: BreakpointPolicy,
    sizes: Iterable[int] = (),
) -> MarkedPrompt:
    """The arranged prompt as it is sent, with its key and its marks.

    ``sizes`` are the bytes up to the end of each block, where they are known.
    """
    prompt = add_cache_key(arrangement.prompt, policy, target.regime)
    if not target.takes_marks:
        body = _body(prompt, draft, target)
        return MarkedPrompt(prompt=prompt, marks={}, explicit=False, body=body)
    sizes = sizes or accumulate([block.size for block in arrangement.bare])
    ends = [size // BYTES_PER_TOKEN for size in sizes]
    policy = msgspec.structs.replace(policy, explicit=is_explicit(prompt, target.regime))
    theirs = route_marks(arrangement.given, prompt, arrangement.blocks, target.regime)
    if policy.places and not policy.explicit:
        lifetime = requested_lifetime(prompt, target.regime)
        prompt, theirs = without_spare_mark(
            prompt, arrangement.blocks, theirs, target.regime, lifetime
        )
    left = marks_left(prompt, theirs, target.regime)
    placed = place_marks(policy, arrangement.blocks, ends, left, theirs, arrangement.prompt.tail)
    marks = placed.marks
    if not policy.explicit and not draft.turns:
        marks = {**marks, **free_splits(arrangement.blocks, left, {**theirs, **marks})}
    marks = dict(sorted(marks.items()))
    places = [(arrangement.blocks[block], ttl) for block, ttl in marks.items()]
    full = add_marks(prompt, places, target.regime)
    stand = {
        index: marks[index]
        for index, (block, _) in zip(marks, places, strict=True)
        if _is_set(block, prompt, full)
    }
    if arrangement.joined and not (theirs or stand):
        full = msgspec.structs.replace(full, messages=arrangement.joined, semi=None)
    return MarkedPrompt(
        prompt=prompt,
        marks={**theirs, **stand},
        explicit=policy.explicit,
        body=_body(full, draft, target),
        notes=(*placed.notes, *([_MARK_LEFT_OUT_NOTE] if len(stand) < len(marks) else ())),
    )


def sent_call(
    draft: Draft, target: PlanningTarget, arrangement: ArrangedPrompt, sending: MarkedPrompt
) -> SentCall:
    """The call as its cache sees it."""
    origin = draft.request.origin
    where = prefix_parameters(sending.prompt, target.regime, draft.fingerprint, target.model)
    return SentCall(
        regime=target.regime,
        place=name_digest(draft.fingerprint, target.upstream),
        feature=name_digest(draft.fingerprint, draft.request.feature),
        conversation=draft.conversation,
        early=where.early,
        late=where.late,
        blocks=arrangement.bare,
        marks=sending.marks,
        explicit=sending.explicit,
        ttl=requested_lifetime(sending.prompt, target.regime),
        tail=sending.prompt.tail,
        lines=arrangement.lines,
        compacted=origin is not None and origin.reset,
        asked_model=draft.prompt.fields.get("model", b"")[:_MAX_MODEL_BYTES],
    )


def _is_set(block: PromptBlock, prompt: Prompt, full: Prompt) -> bool:
    """True if a mark was written where it was to be: not every message can carry one."""
    if block.message < 0:
        return full.tools[block.part] is not prompt.tools[block.part]
    return full.messages[block.message] is not prompt.messages[block.message]


def _body(full: Prompt, draft: Draft, target: PlanningTarget) -> bytes:
    """The body, the caller's own where nothing changed; only a cache with marks needs parts."""
    if full == draft.prompt:
        return draft.request.body
    return (full if target.takes_marks else join_texts(full, draft.prompt)).render()
