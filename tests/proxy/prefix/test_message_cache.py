import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.message_cache import MessageCache, SharedPrefixIndex
from proxy.prefix.prompts.fingerprints import bare_json, digest_without_marks
from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.prompt import MessageReading, Prompt, parse_prompt
from proxy.records.body_reader import SplitBody
from tests.proxy.prefix.sent_calls import body, fingerprint

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


def test_a_shared_prefix_is_the_tools_and_leading_texts():
    prompt, blocks = body(("system", "one\ntwo"), ("user", "three"), tools=("t",))
    prefix_read = SharedPrefixIndex().read_prefix(prompt, fingerprint, 1)

    assert prefix_read.blocks == prefix_read.bare == blocks[:2]
    assert prefix_read.size == 2 * 250 + 300 + 2 * 16
    assert [list(lines.sizes) for lines in prefix_read.lines.values()] == [[4, 3]]
    assert list(prefix_read.lines) == [1]


def test_a_shared_prefix_ignores_cache_marks():
    marked = chat([{"type": "text", "text": "rules", **MARK}], {"name": "a", **MARK})
    plain = chat("rules", {"name": "a", **MARK})
    one, two = (
        SharedPrefixIndex().read_prefix(prompt, fingerprint, 1) for prompt in (marked, plain)
    )

    assert one.blocks != two.blocks
    assert [message.digest for message in one.bare] == [message.digest for message in two.bare]


def test_a_repeated_shared_prefix_is_read_once():
    fronts = SharedPrefixIndex()
    prompt, _ = body(("system", "rules"), ("user", "one"), tools=("t",))
    again, _ = body(("system", "rules"), ("user", "two"), tools=("t",))

    assert fronts.read_prefix(prompt, fingerprint, 1) is fronts.read_prefix(again, fingerprint, 1)


def test_tools_are_read_once_where_instructions_change():
    fronts, texts = SharedPrefixIndex(), []

    def count_and_hash(raw: bytes) -> bytes:
        texts.append(raw)
        return fingerprint(raw)

    for clock in ("10:00", "10:01"):
        prompt, _ = body(("system", clock), tools=("t",))
        fronts.read_prefix(prompt, count_and_hash, 1)

    assert [b"function" in text for text in texts].count(True) == 1


@pytest.mark.parametrize("semi", [None, (0, 0)])
def test_a_shared_prefix_differs_by_texts_tools_slots_and_team(semi):
    fronts = SharedPrefixIndex()
    prompt, _ = body(("system", "rules"), tools=("t",))
    prefix_read = fronts.read_prefix(prompt, fingerprint, 1)
    for text, tool, team in (("Rules", "t", fingerprint), ("rules", "u", fingerprint)):
        changed, _ = body(("system", text), tools=(tool,))
        assert fronts.read_prefix(changed, team, 1) != prefix_read

    assert fronts.read_prefix(prompt, other, 1) != prefix_read
    slotted = msgspec.structs.replace(prompt, semi=semi)
    assert (fronts.read_prefix(slotted, fingerprint, 1) == prefix_read) == (semi is None)


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

    def recorded_fingerprint(raw: bytes) -> bytes:
        seen.append(raw)
        return fingerprint(raw)

    readings, message = MessageCache(), said("user", "hi")
    first = readings.readings_of(recorded_fingerprint, [message])

    assert readings.readings_of(recorded_fingerprint, [bytes(bytearray(message))]) == first
    assert [index.size_bytes for index in readings.indexes] == [290, 0, 0, 0]
    assert seen == [message]


def test_message_readings_are_not_shared_between_teams():
    readings, message = MessageCache(), said("user", "hi")

    assert readings.readings_of(fingerprint, [message]) != readings.readings_of(other, [message])


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
def test_a_message_that_cannot_be_written_again_exactly_is_unplannable(message):
    with pytest.raises(Unplannable, match="stands twice or is escaped"):
        MessageCache().readings_of(fingerprint, [message])


@pytest.mark.parametrize(
    "message", [b"1", b"null", b'{"role":1}', b'{"role":"user","content":[\xff]}', b'{"\xff":1}']
)
def test_a_message_of_bad_json_is_unplannable(message):
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


def test_a_part_with_an_unreadable_key_is_unplannable():
    with pytest.raises(Unplannable):
        MessageCache().readings_of(fingerprint, [b'{"role":"user","content":[{"\xff":1}]}'])


def test_a_message_digest_does_not_depend_on_spelling():
    parts = [{"type": "text", "text": "hi", "cache_control": {}}]
    forms = [said("user", "hi"), said("user", parts), b'{"content" : "hi", "role":"user"}']

    assert len({one.says for one in MessageCache().readings_of(fingerprint, forms)}) == 1


@given(st.sampled_from(["user", "assistant", "system", "tool", "odd"]), st.text() | st.none())
def test_a_message_that_pythons_json_wrote_reads_as_its_compact_form(role, content):
    spaced = json.dumps({"role": role, "content": content}).encode()
    (compact,) = MessageCache().readings_of(fingerprint, [bare_json(spaced)])

    (reading,) = MessageCache().readings_of(fingerprint, [spaced])

    assert reading.bare == digest_without_marks(spaced, fingerprint)
    assert reading.digest == fingerprint(spaced)
    assert (reading.role, reading.says, reading.tagged) == (role, compact.says, compact.tagged)


def test_a_spaced_text_that_names_a_mark_can_hold_none():
    spaced = json.dumps({"role": "user", "content": "cache_control"}).encode()
    (reading,) = MessageCache().readings_of(fingerprint, [spaced])

    assert not reading.may_mark


def test_a_bodys_beginning_counts_the_bytes_of_its_messages():
    readings, messages = MessageCache(), tuple(said("user", str(number)) for number in range(4))
    split = SplitBody(b"", messages, b"")
    readings.readings_of_body(fingerprint, messages, split)

    assert readings.indexes[1].size_bytes == 3 * 440
