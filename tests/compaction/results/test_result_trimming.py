import json

import msgspec
import pytest

from compaction.reading.message import ParsedMessage, Voice
from compaction.results.duplicate_results import text_digest
from compaction.results.lossless_compression import compress_result
from compaction.results.result_trimming import trim_result

TEXT = json.dumps(
    [{"flight_number": f"HAT{number}", "status": "available"} for number in range(20)]
)


def result(raw: str | bytes, **fields) -> ParsedMessage:
    raw = raw if isinstance(raw, bytes) else raw.encode()
    return ParsedMessage(raw=raw, digest=b"", role="tool", **{"voice": Voice.RESULT, **fields})


def content(raw: bytes):
    return json.loads(raw)["content"]


def test_a_text_is_said_shorter_and_every_other_byte_stays():
    raw = '{ "role":"tool", "x": 1.10,"content" : ' + json.dumps(TEXT) + ',"tool_call_id":"é"} '

    trimmed = trim_result(result(raw), {})

    assert trimmed.decode() == raw.replace(json.dumps(TEXT), json.dumps(compress_result(TEXT)))


def test_text_parts_are_said_shorter_and_others_stay():
    odd = '{"type":"text","text":"a","annotations":[ ]}'
    parts = f'["words",{json.dumps({"type": "text", "text": TEXT})},{odd}]'

    trimmed = trim_result(result(f'{{"role":"tool","content":{parts}}}'), {})

    assert content(trimmed)[1] == {"type": "text", "text": compress_result(TEXT)}
    assert odd.encode() in trimmed


def test_a_result_that_was_there_becomes_a_pointer():
    words = "no JSON, only words. " * 20
    for body in (words, [{"type": "text", "text": words}]):
        trimmed = trim_result(
            result(msgspec.json.encode({"content": body})), {text_digest(words): "look()"}
        )

        assert "[same as the earlier result of look()]" in str(content(trimmed))


def test_a_text_beside_other_parts_becomes_no_pointer():
    words = "no JSON, only words. " * 20
    raw = msgspec.json.encode({"content": [{"type": "text", "text": words}] * 2})

    assert trim_result(result(raw), {text_digest(words): "look()"}) == raw


@pytest.mark.parametrize(
    "fields",
    [{"signed": True}, {"whole": False}, {"voice": Voice.USER}, {"voice": Voice.ASSISTANT}],
)
def test_messages_that_may_not_change_are_not_trimmed(fields):
    raw = json.dumps({"role": "tool", "content": TEXT})

    assert trim_result(result(raw, **fields), {}) == raw.encode()


def test_a_mark_stays_where_it_is_and_makes_no_difference_to_the_text():
    mark = {"cache_control": {"type": "ephemeral"}}
    plain, parted = (
        content(trim_result(result(json.dumps({"role": "tool", "content": body, **more})), {}))
        for body, more in ((TEXT, mark), ([{"type": "text", "text": TEXT, **mark}], {}))
    )

    assert plain == compress_result(TEXT)
    assert parted == [{"type": "text", "text": compress_result(TEXT), **mark}]


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({"content": "nothing to gain"}),
        json.dumps({"content": [{"type": "text", "text": "nothing to gain"}]}),
        json.dumps({"content": [{"type": "text", "text": [1]}]}),
        json.dumps({"content": [{"type": "input_text", "text": TEXT}, 1]}),
        json.dumps({"content": None}),
        json.dumps({"role": "tool"}),
        json.dumps({"content": TEXT, "other": {"content": TEXT}}),
        '{"c\\u006fntent":' + json.dumps(TEXT) + "}",
        "not json",
        '{"content":"\\ud800"}',
    ],
)
def test_results_that_cannot_be_told_apart_stay(raw):
    assert trim_result(result(raw), {}) == raw.encode()
