"""Excerpts show the line that changed, short, harmless and only where they may."""

import msgspec

from proxy.prefix.explain.findings import change_excerpt
from proxy.prefix.prediction.changes import ChangeKind, PromptChange
from proxy.prefix.prediction.sent_call import SentCall
from tests.proxy.prefix.sent_calls import VLLM, body

LONG = "All of it is one line that is longer than what is shown of any"


def excerpt_of(at: PromptChange, *messages: tuple[str, str], tools: tuple[str, ...] = ()) -> str:
    prompt, blocks = body(*messages, tools=tools)
    return change_excerpt(SentCall(regime=VLLM, blocks=blocks), at, prompt)


def line(
    at: int | None, how: ChangeKind = ChangeKind.CHANGED, block: int | None = 0
) -> PromptChange:
    return PromptChange(place="system line 1", kind=how, block=block, line=at)


def test_an_excerpt_shows_the_line_that_changed():
    assert (
        excerpt_of(line(1), ("system", "one\nCurrent time: 12:00\nthree")) == "Current time: 12:00"
    )


def test_an_excerpt_cuts_a_long_line():
    assert excerpt_of(line(0), ("system", LONG)) == f"{LONG[:41].strip()}…"


def test_an_excerpt_removes_terminal_control_characters():
    assert excerpt_of(line(0), ("system", "\x1b[31mred\u202e")) == "[31mred"


def test_a_tool_is_shown_by_its_name():
    changed = PromptChange(place="tools[1]", kind=ChangeKind.MOVED, block=1)

    assert excerpt_of(changed, ("user", "a"), tools=("a", "find")) == "find"


def test_a_tool_of_another_kind_is_shown_by_its_name_too():
    changed = PromptChange(place="tools[0]", kind=ChangeKind.CHANGED, block=0)
    tool = (b'{"type": "web_search", "name": "web"}',)
    prompt, blocks = body(("user", "a"), tools=("a",))

    call = SentCall(regime=VLLM, blocks=blocks)
    assert change_excerpt(call, changed, msgspec.structs.replace(prompt, tools=tool)) == "web"
    assert change_excerpt(call, changed, msgspec.structs.replace(prompt, tools=(b"1",))) == ""
    assert change_excerpt(call, changed, msgspec.structs.replace(prompt, tools=())) == ""


def test_no_excerpt_of_removed_unknown_or_private_text():
    assert excerpt_of(line(0, ChangeKind.REMOVED), ("system", "a")) == ""
    assert excerpt_of(line(0, block=None), ("system", "a")) == ""
    assert excerpt_of(line(None), ("system", "a")) == ""
    assert excerpt_of(line(9), ("system", "a")) == ""
    _, blocks = body(("system", "a"))
    assert change_excerpt(SentCall(regime=VLLM, blocks=blocks), line(0), None) == ""
