"""Calls of tools and their results, paired as the Messages API wants them.

Source: Anthropic, tool use: every call is answered in the next message, and only calls are; no
two calls of a conversation share an id (2026-11).
"""

from collections import Counter
from itertools import pairwise

from proxy.providers.anthropic.turns import Turn
from proxy.providers.body_fields import invalid_parameter
from proxy.providers.marked_blocks import Block


def pair_tool_calls(turns: list[Turn]) -> list[Turn]:
    """The turns, in which each call is answered by the next; ids used again made different.

    A new id depends only on the turns before, so a growing conversation keeps its prefix.

    Raises:
        CallerError: If a call has no answer or an answer no call.
    """
    seen: Counter[str] = Counter()
    for turn, after in pairwise([Turn("user"), *turns, Turn("user")]):
        calls, results = _of(turn, "tool_use"), _of(after, "tool_result")
        ids = _check_ids([call["id"] for call in calls], [one["tool_use_id"] for one in results])
        seen.update(ids)
        fresh = {name: f"{name}_{seen[name]}" if seen[name] > 1 else name for name in ids}
        for call in calls:
            call["id"] = fresh[call["id"]]
        for result in results:
            result["tool_use_id"] = fresh[result["tool_use_id"]]
    return turns


def _of(turn: Turn, kind: str) -> list[Block]:
    return [block for block in turn.blocks if block["type"] == kind]


def _check_ids(calls: list[str], results: list[str]) -> set[str]:
    """The ids, once they are the same on both sides."""
    asked, answered = Counter(calls), Counter(results)
    if asked == answered and all(times == 1 for times in asked.values()):
        return set(calls)
    if open_calls := asked - answered:
        raise invalid_parameter(
            "messages",
            f"No answer to tool call {next(iter(open_calls))!r}: add its result right after it.",
        )
    if strays := answered - asked:
        raise invalid_parameter(
            "messages",
            f"Result {next(iter(strays))!r} answers no call right before it: leave it out or send"
            " it once.",
        )
    raise invalid_parameter(
        "messages", "Two tool calls of one message share an id: give each its own."
    )
