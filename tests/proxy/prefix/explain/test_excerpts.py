import msgspec

from proxy.prefix.explain.excerpts import excerpt
from proxy.prefix.prediction.changes import Change, How
from proxy.prefix.prediction.sent import Sent
from tests.proxy.prefix.sendings import VLLM, body

LONG = "All of it is one line that is longer than what is shown of any"


def shown(at: Change, *messages: tuple[str, str], tools: tuple[str, ...] = ()) -> str:
    prompt, blocks = body(*messages, tools=tools)
    return excerpt(Sent(regime=VLLM, blocks=blocks), at, prompt)


def line(at: int | None, how: How = How.CHANGED, block: int | None = 0) -> Change:
    return Change(place="system line 1", how=how, block=block, line=at)


def test_the_line_that_changed_is_shown():
    assert shown(line(1), ("system", "one\nCurrent time: 12:00\nthree")) == "Current time: 12:00"


def test_a_long_line_is_cut():
    assert shown(line(0), ("system", LONG)) == f"{LONG[:41].strip()}…"


def test_what_would_reach_a_terminal_is_made_harmless():
    assert shown(line(0), ("system", "\x1b[31mred\u202e")) == "[31mred"


def test_a_tool_is_shown_by_its_name():
    changed = Change(place="tools[1]", how=How.MOVED, block=1)

    assert shown(changed, ("user", "a"), tools=("a", "find")) == "find"


def test_a_tool_of_another_kind_is_shown_by_its_name_too():
    changed = Change(place="tools[0]", how=How.CHANGED, block=0)
    tool = (b'{"type": "web_search", "name": "web"}',)
    prompt, blocks = body(("user", "a"), tools=("a",))

    call = Sent(regime=VLLM, blocks=blocks)
    assert excerpt(call, changed, msgspec.structs.replace(prompt, tools=tool)) == "web"
    assert excerpt(call, changed, msgspec.structs.replace(prompt, tools=(b"1",))) == ""
    assert excerpt(call, changed, msgspec.structs.replace(prompt, tools=())) == ""


def test_nothing_is_shown_of_what_is_gone_or_unknown_or_not_to_be_shown():
    assert shown(line(0, How.REMOVED), ("system", "a")) == ""
    assert shown(line(0, block=None), ("system", "a")) == ""
    assert shown(line(None), ("system", "a")) == ""
    assert shown(line(9), ("system", "a")) == ""
    _, blocks = body(("system", "a"))
    assert excerpt(Sent(regime=VLLM, blocks=blocks), line(0), None) == ""
