import msgspec
import pytest

from proxy.prefix.prediction.shared_prefixes import SharedPrefixIndex
from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.prompt import Prompt, parse_prompt
from tests.proxy.prefix.sendings import body, fingerprint

MARK = {"cache_control": {"type": "ephemeral"}}


def other(raw: bytes) -> bytes:
    return fingerprint(b"other" + raw)


def chat(system: object, tool: dict[str, object]) -> Prompt:
    return parse_prompt(
        msgspec.json.encode(
            {
                "tools": [{"type": "function", "function": tool}],
                "messages": [{"role": "system", "content": system}],
            }
        )
    )


def test_what_stands_before_a_conversation_is_its_tools_and_texts():
    prompt, blocks = body(("system", "one\ntwo"), ("user", "three"), tools=("t",))
    found = SharedPrefixIndex().read_prefix(prompt, fingerprint, 1)

    assert found.blocks == found.bare == blocks[:2]
    assert [list(lines.sizes) for lines in found.lines.values()] == [[4, 3]]
    assert list(found.lines) == [1]


def test_marks_in_it_are_looked_past():
    marked = chat([{"type": "text", "text": "rules", **MARK}], {"name": "a", **MARK})
    plain = chat("rules", {"name": "a", **MARK})
    one, two = (
        SharedPrefixIndex().read_prefix(prompt, fingerprint, 1) for prompt in (marked, plain)
    )

    assert one.blocks != two.blocks
    assert [each.digest for each in one.bare] == [each.digest for each in two.bare]


def test_what_comes_again_is_not_read_again():
    fronts = SharedPrefixIndex()
    prompt, _ = body(("system", "rules"), ("user", "one"), tools=("t",))
    again, _ = body(("system", "rules"), ("user", "two"), tools=("t",))

    assert fronts.read_prefix(prompt, fingerprint, 1) is fronts.read_prefix(again, fingerprint, 1)


@pytest.mark.parametrize("semi", [None, (0, 0)])
def test_it_is_another_for_other_texts_tools_slots_and_teams(semi):
    fronts = SharedPrefixIndex()
    prompt, _ = body(("system", "rules"), tools=("t",))
    found = fronts.read_prefix(prompt, fingerprint, 1)
    for text, tool, team in (("Rules", "t", fingerprint), ("rules", "u", fingerprint)):
        changed, _ = body(("system", text), tools=(tool,))
        assert fronts.read_prefix(changed, team, 1) != found

    assert fronts.read_prefix(prompt, other, 1) != found
    slotted = msgspec.structs.replace(prompt, semi=semi)
    assert (fronts.read_prefix(slotted, fingerprint, 1) == found) == (semi is None)


def test_what_is_remembered_is_bounded():
    fronts = SharedPrefixIndex(room=2_000)
    for number in range(50):
        fronts.read_prefix(body(("system", f"{number}"))[0], fingerprint, 1)

    assert 0 < len(fronts) < 10


def test_a_message_that_cannot_be_read_is_unplannable():
    prompt, _ = body(("system", "a"))

    with pytest.raises(Unplannable):
        SharedPrefixIndex().read_prefix(
            msgspec.structs.replace(prompt, messages=(b"1",)), fingerprint, 1
        )
