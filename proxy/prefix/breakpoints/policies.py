"""Chooses a conversation's marks and cache key by expected value, and puts the key into the call.

No retention is asked for: OpenAI keeps prompts for a day by itself, but for organisations that
agreed on keeping nothing, and that is theirs to change.

Source: OpenAI, prompt caching guide (2026-09); Mistral and Fireworks, prompt caching (2026-11);
xAI, prompt caching, maximizing cache hits, chat completions (2026-11).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final

import msgspec

from proxy.caches.regime import Regime
from proxy.prefix.breakpoints.cheapest_marks import CallToMark, Reuse, cheapest_marks
from proxy.prefix.breakpoints.placement import is_cacheable_length
from proxy.prefix.breakpoints.plan import BreakpointPolicy
from proxy.prefix.breakpoints.reuse_statistics import ExpectedUses
from proxy.prefix.prediction.sent_call import MAX_COMPARED_CALLS, PromptStart
from proxy.prefix.prompts.items import is_items
from proxy.prefix.prompts.objects import members
from proxy.prefix.prompts.prompt import (
    BYTES_PER_TOKEN,
    Prompt,
    PromptBlock,
    PromptSlot,
    part_text,
)
from proxy.records.amounts import quantity

_OPTIONS: Final = "prompt_cache_options"
_RETENTION: Final = "prompt_cache_retention"
_KEY: Final = "prompt_cache_key"
#: Caches whose calls carry a key in the body; "" for any other provider.
KEYED: Final = frozenset({("block-chain", "mistral"), ("implicit", "fireworks")})
#: The same in the Responses API.
_KEYED_ITEMS: Final = KEYED | {("block-chain", "xai")}
#: The header that carries it, elsewhere.
_HEADERS: Final = {("block-chain", "xai"): "x-grok-conv-id"}
#: The cache that has modes.
_OPENAI: Final = "openai-breakpoint"
#: Least ratio of what is read of a mark before the end to what is read of one at the end.
_MIN_READ_RATIO: Final = 1.1
#: Calls that all have to begin in another way before OpenAI's own choice is switched off.
_MIN_DIFFERENT_CALLS: Final = 6
#: Answers from which on a policy holds to the end, as a power of two.
_LAST_TURNS_STAGE: Final = 4
#: Calls that begin a conversation again, from which on the same holds for all, likewise.
_LAST_CALLS_STAGE: Final = 16
#: Providers of machine-local caches whose key alone is where a call goes. OpenAI up to GPT-5.5 and
#: Azure join it to a hash of how the prompt begins, which brings equal prefixes together by itself:
#: one key for all changes nothing there, and several send one prefix to several cold machines.
_ROUTED_BY_KEY: Final = frozenset({("block-chain", "xai")})


def add_cache_key(prompt: Prompt, policy: BreakpointPolicy, regime: Regime) -> Prompt:
    """The prompt with the policy's key and mode, each where the caller said nothing.

    A key that an agent's sessions share stands in place of the caller's own.

    OpenAI refuses a retention beside options, so a caller's retention keeps the options away.
    """
    if not (policy.key or policy.explicit or policy.shared_key):
        return prompt
    fields = {name: raw for name, raw in prompt.fields.items() if raw != b"null"}
    wanted: dict[str, bytes] = {}
    caches = {(regime.name, regime.provider), (regime.name, "")}
    keyed_by = _KEYED_ITEMS if is_items(fields) else KEYED
    if policy.key and not keyed_by.isdisjoint(caches):
        wanted[_KEY] = msgspec.json.encode(policy.key)
    if policy.explicit and regime.name == _OPENAI and _RETENTION not in fields:
        wanted[_OPTIONS] = b'{"mode":"explicit"}'
    added = {one: raw for one, raw in wanted.items() if one not in fields}
    if policy.shared_key and _KEY in fields:
        added[_KEY] = msgspec.json.encode(policy.shared_key)
    return msgspec.structs.replace(prompt, fields={**prompt.fields, **added}) if added else prompt


def is_explicit(prompt: Prompt, regime: Regime) -> bool:
    """True if a prompt that is sent switches the provider's own choice of breakpoints off."""
    raw = prompt.fields.get(_OPTIONS, b"")
    if regime.name != _OPENAI or raw[:1] != b"{":
        return False
    return members(raw).get("mode") == b'"explicit"'


def requested_lifetime(prompt: Prompt, regime: Regime) -> str:
    """The lifetime that a prompt asks for as a whole; "" for none that its cache sells."""
    raw = prompt.fields.get(_OPTIONS, b"")
    if regime.name != _OPENAI or raw[:1] != b"{":
        return ""
    asked = part_text(members(raw).get("ttl", b"")) or ""
    return asked if asked in regime.lifetimes else ""


def needs_key(regime: str, provider: str) -> bool:
    """True if calls share a cache only where all of them carry the same key, however short."""
    return (regime, "") in KEYED or (regime, provider) in KEYED


def key_headers(policy: BreakpointPolicy, regime: Regime) -> dict[str, str]:
    """The headers that carry the policy's key, where a cache looks for it there."""
    name = _HEADERS.get((regime.name, regime.provider))
    return {name: policy.key} if name and policy.key else {}


class ConversationShape(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation at its first call.

    Attributes:
        tools: Tokens of the tools; they stand at the beginning of the stable slot.
        stable: Tokens of the stable slot.
        semi: Tokens of the semi-stable slot.
        history: Tokens of the conversation, as far as later calls repeat it.
        back: Number of blocks at its end that they do not repeat.
        ends_system: True if system text that can be marked ends the stable slot; tools alone cannot
            be marked everywhere.
    """

    stable: int
    tools: int = 0
    semi: int = 0
    history: int = 0
    back: int = 0
    ends_system: bool = True


class CacheKeySource(msgspec.Struct, frozen=True, kw_only=True):
    """The hashes that cache keys are made of; no text of the caller's leaves in them.

    Attributes:
        team: The team, on this model.
        feature: Its feature.
    """

    team: str = ""
    feature: str = ""


def conversation_shape(
    blocks: Sequence[PromptBlock], spoken: Sequence[int], beyond: int
) -> ConversationShape:
    """The shape of a call's prompt.

    Args:
        blocks: The prompt's.
        spoken: Tokens of its conversation without so many of the last blocks, by how many.
        beyond: Number of those that later calls do not repeat.
    """
    sizes = dict.fromkeys(PromptSlot, 0)
    for block in blocks:
        sizes[block.slot] += block.size
    return ConversationShape(
        tools=sum(block.size for block in blocks if block.message < 0) // BYTES_PER_TOKEN,
        stable=sizes[PromptSlot.STABLE] // BYTES_PER_TOKEN,
        semi=sizes[PromptSlot.SEMI_STABLE] // BYTES_PER_TOKEN,
        history=spoken[beyond],
        back=beyond,
        ends_system=any(
            block.slot is PromptSlot.STABLE and block.role != "tools" for block in blocks
        ),
    )


def choose_policy(
    shape: ConversationShape,
    uses: ExpectedUses,
    regime: Regime,
    key_source: CacheKeySource,
    *,
    explicit: bool = False,
) -> BreakpointPolicy:
    """Choose the conversation's marks and key; marks nothing where writes are free.

    Args:
        shape: Its first call.
        uses: Expected uses.
        regime: The cache of its route.
        key_source: The hashes that keys are made of.
        explicit: True if the caller switched the provider's own choice of breakpoints off (OpenAI).
    """
    sent = conversation_cache_key(regime, key_source)
    if not regime.takes_marks or not regime.writes:
        return BreakpointPolicy(
            key=sent, why="nothing is charged for writing, so nothing is marked"
        )
    marks = _best_lifetimes(shape, uses, regime)
    if regime.name == _OPENAI:
        marks, explicit, why = _choose_openai_marks(shape, uses, marks, regime, explicit=explicit)
    else:
        explicit, why = False, _policy_reason(marks, shape)
    return BreakpointPolicy(
        tools=marks.get("tools", ""),
        stable=marks.get("stable", ""),
        semi=marks.get("semi", ""),
        history=marks.get("history", ""),
        back=shape.back if "history" in marks else 0,
        explicit=explicit,
        key=sent,
        why=why,
    )


def blocks_left_unmarked(repeats: Sequence[float], sizes: Sequence[int]) -> int:
    """Number of blocks at its end a conversation's mark leaves out, so that most is read of it.

    Args:
        repeats: The share of later calls that repeat all but so many blocks, by how many.
        sizes: Tokens of the conversation without so many.
    """
    worth = [_expected_read_tokens(repeats, sizes, at) for at in range(len(sizes))]
    best = max(range(len(worth)), key=worth.__getitem__)
    return best if worth[best] > worth[0] * _MIN_READ_RATIO else 0


def _expected_read_tokens(repeats: Sequence[float], sizes: Sequence[int], at: int) -> float:
    """Tokens that an average later call reads, where marks always leave out so many blocks.

    One that repeats less reads up to an earlier mark, if that was before what is not repeated.
    """
    less = pairwise(repeats[at:])
    shorter = sum((b - a) * size for (a, b), size in zip(less, sizes[at + 1 :], strict=True))
    return repeats[at] * (sizes[at] + shorter)


def decision_stage(turns: int, calls: int = 0) -> int:
    """The number of the decision that holds after so many answers; 0 is a conversation's first.

    It is decided again when an answer came, and whenever there are twice as many: by then it is
    known that it goes on, and how. Marks are no part of a prefix, so they may change. One that
    begins again is many that cannot be told apart, and is decided whenever it began twice as often.

    Args:
        turns: Answers it holds.
        calls: Number of times it was seen before.
    """
    if turns or not calls:
        return min(turns.bit_length(), _LAST_TURNS_STAGE)
    return _LAST_TURNS_STAGE + min(calls.bit_length(), _LAST_CALLS_STAGE)


def policy_names(regime: Regime, stage: int) -> Sequence[str]:
    """The names under which a plan keeps policies for a kind of cache, from this stage back."""
    return _policy_names(regime.name, regime.provider)[-1 - stage :]


@lru_cache
def _policy_names(name: str, provider: str) -> tuple[str, ...]:
    """The names of all decision stages, the latest first."""
    kind = f"{name}/{provider}"
    stages = range(_LAST_TURNS_STAGE + _LAST_CALLS_STAGE, 0, -1)
    return (*(f"{kind}/{stage}" for stage in stages), kind)


def revise_policy(found: BreakpointPolicy, before: BreakpointPolicy) -> BreakpointPolicy:
    """Return the new policy with the parts that must not change within a conversation.

    Its key leads to its cache. What was stored before OpenAI's own choice was switched off would
    not be read after.

    Source: OpenAI, prompt caching guide, implicit and explicit mode (2026-09).
    """
    explicit = found.explicit and before.explicit
    return msgspec.structs.replace(
        found, key=before.key, shared_key=before.shared_key, explicit=explicit
    )


def smaller_policies(policy: BreakpointPolicy) -> tuple[BreakpointPolicy, BreakpointPolicy]:
    """The policy less its marks in the conversation, and the shortest cacheable prefix alone."""
    ttl = policy.history or policy.semi or policy.stable or policy.tools
    return (
        msgspec.structs.replace(policy, semi="", history="", back=0),
        BreakpointPolicy(first=ttl, back=policy.back, key=policy.key),
    )


def without_unread_marks(
    found: BreakpointPolicy, regime: Regime, before: Sequence[PromptStart], now: PromptStart
) -> BreakpointPolicy:
    """Return the policy without marks that no later call reads.

    Nothing behind a change is read, so nothing is written there. OpenAI's own choice is switched
    off only where no two of many calls began alike: several agents that take turns, or a list of
    tools that grows, begin alike again, and what OpenAI stored is read then.

    Args:
        found: Marks that the conversation would set.
        regime: The cache of its route.
        before: Starts of its latest calls; where every other one began so, too, it holds still.
        now: Start of this call.
    """
    if regime.name == _OPENAI and not _are_all_new(before, now):
        return found
    before = before[-MAX_COMPARED_CALLS:]
    same = sum(each.first == now.first for each in before)
    if not regime.takes_marks or same * 2 >= len(before):
        return found
    holds = sum(each.head == now.head for each in before) * 2 >= len(before)
    stable = found.stable if holds else ""
    explicit = regime.name == _OPENAI
    why = "it begins in another way with each call, and nothing behind that is read again"
    return msgspec.structs.replace(
        found, stable=stable, semi="", history="", explicit=explicit, why=why
    )


def _are_all_new(before: Sequence[PromptStart], now: PromptStart) -> bool:
    """True if no two of many calls began alike, this one among them."""
    firsts = {now.first, *(each.first for each in before)}
    return len(before) >= _MIN_DIFFERENT_CALLS and len(firsts) > len(before)


def conversation_cache_key(regime: Regime, key_source: CacheKeySource) -> str:
    """The key that brings calls of one prefix together; "" for none.

    What keeps teams apart is no matter of a plan: it holds for every call, planned or not.
    """
    if not _ROUTED_BY_KEY.isdisjoint({(regime.name, regime.provider), (regime.name, "")}):
        return key_source.feature
    return key_source.team if needs_key(regime.name, regime.provider) else ""


def _best_lifetimes(shape: ConversationShape, uses: ExpectedUses, regime: Regime) -> dict[str, str]:
    """The lifetime of the mark after each slot that pays; the history may grow over the least."""
    sizes = (shape.tools, shape.stable - shape.tools, shape.semi, shape.history)
    ends = tuple(accumulate(sizes))
    reuses = [Reuse(3, uses.history)]
    if shape.semi and is_cacheable_length(ends[2], regime):
        reuses.append(Reuse(2, uses.semi))
    if (
        ends[1]
        and is_cacheable_length(ends[1], regime)
        and (shape.ends_system or regime.name != _OPENAI)
    ):
        reuses.append(Reuse(1, uses.stable))
    if shape.tools and is_cacheable_length(ends[0], regime) and regime.name != _OPENAI and sizes[1]:
        reuses.append(Reuse(0, uses.tools))
    marks = cheapest_marks(
        CallToMark(ends=ends),
        reuses,
        msgspec.structs.replace(_with_usual_lifetime(regime), least=1),
    )
    names = ("tools", "stable", "semi", "history")
    return {names[mark.block]: mark.ttl for mark in marks}


def _with_usual_lifetime(regime: Regime) -> Regime:
    """The regime without OpenAI's longer lifetimes; any other as it is.

    OpenAI writes the end of each prompt for its usual one anyway; a longer one would be dearer.
    """
    if regime.name != _OPENAI or not regime.writes:
        return regime
    usual = regime.usual_ttl
    return msgspec.structs.replace(regime, writes={usual: regime.writes[usual]})


def _choose_openai_marks(
    shape: ConversationShape,
    uses: ExpectedUses,
    marks: dict[str, str],
    regime: Regime,
    *,
    explicit: bool,
) -> tuple[dict[str, str], bool, str]:
    """Marks, whether they are all, and why: explicit only where few calls are read to their end.

    Implicit mode charges for writing all of the prompt, so the stable mark costs nothing there,
    and nothing is dearer than unmodified. In a caller's explicit mode it has to pay for itself.

    Source: OpenAI, prompt caching guide, implicit and explicit mode (2026-09).
    """
    if "history" not in marks and uses.is_lone:
        return marks, True, _policy_reason(marks, shape)
    why = "it is likely to go on, and the provider writes its end by itself"
    if "history" not in marks:
        why = "too little is known to switch off the provider's own choice"
    usual = regime.usual_ttl
    if not shape.back:
        marks = {slot: ttl for slot, ttl in marks.items() if (slot, ttl) != ("history", usual)}
    is_free = not explicit and shape.ends_system
    if is_free and shape.stable and is_cacheable_length(shape.stable, regime):
        marks.setdefault("stable", usual)
    return marks, False, why


def _policy_reason(marks: Mapping[str, str], shape: ConversationShape) -> str:
    if not marks:
        return "nothing is expected to be read again often enough to pay for writing it"
    places = " and ".join(f"{slot} ({ttl})" for slot, ttl in marks.items())
    if "history" in marks and shape.back:
        return f"it is likely to go on without its last {quantity(shape.back, 'block')}: {places}"
    if "history" in marks:
        return f"it is likely to go on: {places}"
    return f"only what other conversations share is likely to be read again: {places}"
