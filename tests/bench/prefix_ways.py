"""The same call built in several ways; each gives the messages and whatever else a body holds.

- *variable-first*: time, user and passages above the handbook, as many build it.
- *stable-first*: the handbook first, the rest of the system text below it. Where a cache keeps
  nothing unasked, the one mark stands that its quick start shows: after the handbook.
- *unmarked*: stable-first without that mark, where there is one.
- *prefix sharing*: the handbook for everybody, the user's facts for the conversation, then the
  conversation, and last, in a message that no later call repeats, what changes with every call.
  Marks as the regime wants them; with some ten calls a minute no cache wants a key.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.bench.prefix_traffic import TimedQuestion
from tests.fakes.handbook import handbook

Json = dict[str, Any]
#: Makes a body's fields of a call, its conversation so far, and a regime.
Way = Callable[[TimedQuestion, Sequence[Json], str], Json]

_ANTHROPIC: Mapping[str, Json] = {"cache_control": {"type": "ephemeral"}}
_OPENAI: Mapping[str, Json] = {"prompt_cache_breakpoint": {"mode": "explicit"}}
_MARKS = {"anthropic-breakpoint": _ANTHROPIC, "openai-breakpoint": _OPENAI}


def variable_first(call: TimedQuestion, history: Sequence[Json], regime: str) -> Json:
    """Text that changes comes first."""
    system = f"{call.context}\n\n{call.user.facts}\n\n{handbook()}"
    return {"messages": [_said("system", system), *history, _said("user", call.question)]}


def without_marks(call: TimedQuestion, history: Sequence[Json], regime: str) -> Json:
    """Text that never changes comes first."""
    system = [_part(handbook()), _part(f"{call.user.facts}\n\n{call.context}")]
    return {"messages": [_said("system", system), *history, _said("user", call.question)]}


def stable_first(call: TimedQuestion, history: Sequence[Json], regime: str) -> Json:
    """Text that never changes comes first, and the cache is told so where it must be."""
    mark = _MARKS.get(regime, {})
    system = [_part(handbook(), mark), _part(f"{call.user.facts}\n\n{call.context}")]
    explicit = _explicit(regime)
    return {
        "messages": [_said("system", system), *history, _said("user", call.question)]
    } | explicit


def prefix_sharing(call: TimedQuestion, history: Sequence[Json], regime: str) -> Json:
    """Shared by all, then by the conversation, then by nothing."""
    mark = _MARKS.get(regime, {})
    messages = [
        _said("system", [_part(handbook(), mark), _part(call.user.facts)]),
        *_with_marks(history, regime),
        _said("user", [_part(call.question, _OPENAI if regime == "openai-breakpoint" else {})]),
        _said("user", call.context),
    ]
    return {"messages": messages} | _explicit(regime)


def _with_marks(history: Sequence[Json], regime: str) -> list[Json]:
    """OpenAI reads only where the call itself has marks, so each question keeps its own.

    Anthropic looks back from the last one; it stands on the last answer, because the question
    shares its turn with what no later call repeats.
    """
    if regime == "openai-breakpoint":
        return [
            _said("user", [_part(one["content"], _OPENAI)]) if one["role"] == "user" else one
            for one in history
        ]
    if regime == "anthropic-breakpoint" and history:
        *before, answer = history
        return [*before, _said("assistant", [_part(answer["content"], _ANTHROPIC)])]
    return list(history)


def _explicit(regime: str) -> Json:
    is_paid = regime == "openai-breakpoint"
    return {"prompt_cache_options": {"mode": "explicit"}} if is_paid else {}


def _said(role: str, content: object) -> Json:
    return {"role": role, "content": content}


def _part(text: str, mark: Mapping[str, Json] | None = None) -> Json:
    return {"type": "text", "text": text, **(mark or {})}


def ways(regime: str) -> Mapping[str, Way]:
    """Those that differ on this regime, in the order of the table."""
    return {name: way for name, way in WAYS.items() if name != "unmarked" or regime in _MARKS}


#: Every one there is.
WAYS: Mapping[str, Way] = {
    "variable-first": variable_first,
    "unmarked": without_marks,
    "stable-first": stable_first,
    "prefix sharing": prefix_sharing,
}
