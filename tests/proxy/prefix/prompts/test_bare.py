import msgspec
import pytest

from proxy.prefix.prompts.bare import bare_json, digest_without_marks, without_marks
from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.prompt import BlockJson, Prompt, parse_prompt
from tests.proxy.prefix.sendings import blocks, body, fingerprint

MARK = {"cache_control": {"type": "ephemeral"}}
BREAK = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def chat(system: object, user: object, tool: dict[str, object]) -> Prompt:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return parse_prompt(msgspec.json.encode({"messages": messages, "tools": [tool]}))


def digests(prompt: Prompt) -> list[bytes]:
    found, pieces = blocks(prompt, fingerprint), BlockJson(prompt)
    known = [digest_without_marks(pieces.of(block), fingerprint) for block in found]
    return [block.digest for block in without_marks(found, known)]


TOOL: dict[str, object] = {"type": "function", "function": {"name": "a"}}


def test_marks_make_no_difference():
    plain = chat("rules", "hello", TOOL)
    system = [{"type": "text", "text": "rules", **MARK}]
    user = [{"type": "text", "text": "hello", **BREAK}]

    assert digests(chat(system, user, {**TOOL, **MARK})) == digests(plain)
    assert digests(chat("rules", "hello you", TOOL)) != digests(plain)


def test_parts_are_not_run_together():
    two = [{"type": "text", "text": "a"}, {"type": "text", "text": "b", **MARK}]

    assert bare_json(msgspec.json.encode({"content": two})) == (
        b'{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}'
    )


def test_spacing_makes_no_difference():
    assert bare_json(b'{"a": 1, "b": [2]}') == bare_json(b'{"a":1,"b":[2]}')


def test_a_mark_that_is_the_callers_argument_is_kept():
    argument = b'{"role":"assistant","tool_calls":[{"cache_control":1}]}'

    assert bare_json(argument) == argument


@pytest.mark.parametrize("raw", [b"{", b'"\xff"', b"[" * 100_000])
def test_what_is_no_json_is_unplannable(raw):
    with pytest.raises(Unplannable):
        bare_json(raw)


@pytest.mark.parametrize("raw", [b"1", b"null", b"[]", b'{"content": [1]}', b'{"content": []}'])
def test_odd_blocks_are_let_be(raw):
    assert msgspec.json.decode(bare_json(raw)) in (
        msgspec.json.decode(raw),
        {"content": 1},
    )


def test_a_blocks_json_is_found():
    prompt, found = body(("system", "a"), ("user", "b"), tools=("t",))
    pieces = BlockJson(prompt)

    assert [pieces.of(block) for block in found] == [
        prompt.tools[0],
        b'"a"',
        prompt.messages[1],
    ]
