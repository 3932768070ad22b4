"""Calls of tools and their results, paired."""

import pytest

from proxy.providers.anthropic.pairs import pair_tool_calls
from proxy.providers.anthropic.turns import Turn
from tests.fakes.refusals import refusing


def _calls(*names: str) -> Turn:
    return Turn("assistant", [{"type": "tool_use", "id": name} for name in names])


def _results(*names: str) -> Turn:
    return Turn("user", [{"type": "tool_result", "tool_use_id": name} for name in names])


def _ids(turns: list[Turn]) -> list[list[str | None]]:
    return [[block.get("id", block.get("tool_use_id")) for block in turn.blocks] for turn in turns]


def test_calls_answered_in_any_order_are_left_alone() -> None:
    assert _ids(pair_tool_calls([_calls("a", "b"), _results("b", "a")])) == [["a", "b"], ["b", "a"]]


def test_an_id_used_again_later_is_made_different_on_both_sides() -> None:
    turns = [_calls("a"), _results("a"), _calls("a", "b"), _results("a", "b")]

    assert _ids(pair_tool_calls(turns)) == [["a"], ["a"], ["a_2", "b"], ["a_2", "b"]]


@pytest.mark.parametrize(
    ("turns", "words"),
    [
        ([_calls("a")], "No answer to tool call 'a'"),
        ([_calls("a"), Turn("user", [{"type": "text", "text": "x"}])], "No answer"),
        ([_calls("a", "b"), _results("a")], "No answer to tool call 'b'"),
        ([_results("a")], "'a' answers no call"),
        ([_calls("a"), _results("a", "a")], "'a' answers no call"),
        ([_calls("a", "a"), _results("a", "a")], "share an id"),
    ],
)
def test_what_does_not_pair_is_refused(turns: list[Turn], words: str) -> None:
    with refusing(400, match=words):
        pair_tool_calls(turns)
