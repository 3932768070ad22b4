import msgspec
import pytest

from proxy.prefix.message_cache import MessageCache, SharedPrefixIndex
from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.prompt import MessageReading, Prompt, parse_prompt
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


def said(role: str, content: object) -> bytes:
    return msgspec.json.encode({"role": role, "content": content})


def test_a_message_is_known_by_role_print_marks_and_tags():
    plain, marked = (
        said("user", "hi"),
        said("system", [{"type": "text", "text": "", "cache_control": {}}]),
    )
    declared = said("user", "<tg:variable>now</tg:variable>")

    bare = said("system", "")
    print_, other_, short = map(fingerprint, (plain, declared, bare))
    assert MessageCache().readings_of(fingerprint, [plain, marked, declared]) == (
        MessageReading("user", print_, may_mark=False, tagged=False, says=print_),
        MessageReading(
            "system", fingerprint(marked), tagged=False, bare=(len(bare), short), says=short
        ),
        MessageReading("user", other_, may_mark=False, tagged=True, says=other_),
    )


def test_a_message_that_comes_again_is_not_read_again():
    seen: list[bytes] = []

    def noting(raw: bytes) -> bytes:
        seen.append(raw)
        return fingerprint(raw)

    readings, message = MessageCache(), said("user", "hi")
    first = readings.readings_of(noting, [message])

    assert readings.readings_of(noting, [bytes(bytearray(message))]) == first
    assert seen == [message]


def test_another_team_shares_nothing():
    readings, message = MessageCache(), said("user", "hi")

    assert readings.readings_of(fingerprint, [message]) != readings.readings_of(other, [message])


def test_what_is_remembered_is_bounded_and_what_is_used_stays():
    readings = MessageCache(most=8)
    messages = [said("user", str(number)) for number in range(100)]
    for message in messages:
        readings.readings_of(fingerprint, [messages[0], message])

    assert len(readings) <= 8
    assert readings.readings_of(fingerprint, messages[:1])[0].digest == fingerprint(messages[0])


@pytest.mark.parametrize(
    "message",
    [
        b'{"role":"user","content":"lost","content":"kept"}',
        b'{"role":"user","role":"user","content":"a"}',
        b'{"role":"user","\\u0063ontent":"a"}',
        b'{"role":"user","content":[{"type":"text","text":"lost","text":"kept"}]}',
        b'{"role":"user","content":["a",{"type":"text","\\u0074ext":"a"}]}',
    ],
)
def test_what_cannot_be_written_again_as_it_is_is_not_planned(message):
    with pytest.raises(Unplannable, match="stands twice or is escaped"):
        MessageCache().readings_of(fingerprint, [message])


@pytest.mark.parametrize(
    "message",
    [b"1", b"null", b'{"role":1}', b'{"role":"user","content":[\xff]}', b'{"\xff":1}'],
)
def test_what_cannot_be_read_is_not_planned(message):
    with pytest.raises(Unplannable):
        MessageCache().readings_of(fingerprint, [message])


@pytest.mark.parametrize(
    "message",
    [
        b' { "role" : "user" ,\n"content"\t: [ "a" , { "type" : "text", "text":"b" } ] } ',
        b"{}",
        b'{"role":"user","content":5}',
        '{"role":"user","name":"Zoë","content":null}'.encode(),
    ],
)
def test_white_space_and_odd_contents_are_read(message):
    assert MessageCache().readings_of(fingerprint, [message])[0].digest == fingerprint(message)


def test_a_part_whose_key_cannot_be_read_is_not_planned():
    with pytest.raises(Unplannable):
        MessageCache().readings_of(fingerprint, [b'{"role":"user","content":[{"\xff":1}]}'])


def test_what_it_says_is_the_same_however_it_is_written():
    parts = [{"type": "text", "text": "hi", "cache_control": {}}]
    forms = [said("user", "hi"), said("user", parts), b'{"content" : "hi", "role":"user"}']

    assert len({one.says for one in MessageCache().readings_of(fingerprint, forms)}) == 1
