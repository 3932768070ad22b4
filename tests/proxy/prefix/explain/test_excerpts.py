import msgspec

from proxy.prefix.explain.excerpts import excerpt
from proxy.prefix.prediction.changes import ChangeKind, PromptChange
from proxy.prefix.prediction.sent import SentCall
from tests.proxy.prefix.sendings import VLLM, body

LONG = "All of it is one line that is longer than what is shown of any"


def shown(at: PromptChange, *messages: tuple[str, str], tools: tuple[str, ...] = ()) -> str:
    prompt, blocks = body(*messages, tools=tools)
    return excerpt(SentCall(regime=VLLM, blocks=blocks), at, prompt)


def line(
    at: int | None, how: ChangeKind = ChangeKind.CHANGED, block: int | None = 0
) -> PromptChange:
    return PromptChange(place="system line 1", how=how, block=block, line=at)


def test_the_line_that_changed_is_shown():
    assert shown(line(1), ("system", "one\nCurrent time: 12:00\nthree")) == "Current time: 12:00"


def test_a_long_line_is_cut():
    assert shown(line(0), ("system", LONG)) == f"{LONG[:41].strip()}…"


def test_what_would_reach_a_terminal_is_made_harmless():
    assert shown(line(0), ("system", "\x1b[31mred\u202e")) == "[31mred"


def test_a_tool_is_shown_by_its_name():
    changed = PromptChange(place="tools[1]", how=ChangeKind.MOVED, block=1)

    assert shown(changed, ("user", "a"), tools=("a", "find")) == "find"


def test_a_tool_of_another_kind_is_shown_by_its_name_too():
    changed = PromptChange(place="tools[0]", how=ChangeKind.CHANGED, block=0)
    tool = (b'{"type": "web_search", "name": "web"}',)
    prompt, blocks = body(("user", "a"), tools=("a",))

    call = SentCall(regime=VLLM, blocks=blocks)
    assert excerpt(call, changed, msgspec.structs.replace(prompt, tools=tool)) == "web"
    assert excerpt(call, changed, msgspec.structs.replace(prompt, tools=(b"1",))) == ""
    assert excerpt(call, changed, msgspec.structs.replace(prompt, tools=())) == ""


def test_nothing_is_shown_of_what_is_gone_or_unknown_or_not_to_be_shown():
    assert shown(line(0, ChangeKind.REMOVED), ("system", "a")) == ""
    assert shown(line(0, block=None), ("system", "a")) == ""
    assert shown(line(None), ("system", "a")) == ""
    assert shown(line(9), ("system", "a")) == ""
    _, blocks = body(("system", "a"))
    assert excerpt(SentCall(regime=VLLM, blocks=blocks), line(0), None) == ""
