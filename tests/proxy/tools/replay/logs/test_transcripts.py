"""Sessions of coding agents as the calls they made."""

from typing import Any

import orjson
import pytest

from proxy.errors import OperatorError
from proxy.tools.replay.logs.transcripts import session_reader
from proxy.tools.replay.recorded_call import RecordedCall
from tests.fakes.logged_calls import claude_code, codex

Json = dict[str, Any]


def calls(lines: list[Json]) -> list[RecordedCall]:
    reader = session_reader(lines[0])
    assert reader is not None
    recorded = [call for line in lines for call in reader.feed(line)]
    recorded += reader.end()
    assert not [call for call in recorded if isinstance(call, OperatorError)]
    return [call for call in recorded if isinstance(call, RecordedCall)]


def lines(raw: bytes) -> list[Json]:
    return [orjson.loads(line) for line in raw.splitlines()]


def texts(call: RecordedCall) -> str:
    return orjson.dumps(orjson.loads(call.body)["messages"]).decode()


@pytest.mark.parametrize("transcript", [claude_code, codex])
def test_each_call_of_a_session_holds_what_was_said_before_it(transcript):
    recorded = calls(lines(transcript(5)))

    assert len(recorded) == 5
    for number, call in enumerate(recorded):
        assert texts(call).count("Where is parcel") == number + 1
        assert texts(call).count("Found.") == number


@pytest.mark.parametrize(("transcript", "tokens"), [(claude_code, 20_004), (codex, 9_000)])
def test_text_that_the_agent_does_not_write_down_is_stood_for_by_its_length(transcript, tokens):
    recorded = calls(lines(transcript(5)))

    assert len(recorded[0].body) // 4 == pytest.approx(tokens, rel=0.2)
    first, *rest = [orjson.loads(call.body) for call in recorded]
    opening = first.get("system") or first["messages"][0]
    assert all((body.get("system") or body["messages"][0]) == opening for body in rest)


def test_claude_codes_marks_stand_at_the_end_of_its_text_and_of_the_last_message():
    body = orjson.loads(calls(lines(claude_code(3)))[-1].body)

    marked = [
        part["cache_control"]
        for message in body["messages"]
        for part in message["content"]
        if "cache_control" in part
    ]
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert len(marked) == 1
    assert "cache_control" in body["messages"][-1]["content"][-1]


def test_an_answer_in_several_lines_is_one_answer_with_the_last_lines_usage():
    (call,) = calls(lines(claude_code(1)))

    reply = orjson.loads(call.reply)
    assert reply["content"].startswith("Parcel 0")
    assert reply["tool_calls"][0]["function"]["name"] == "Bash"
    assert call.generated == 40


def test_a_started_agent_is_a_conversation_of_its_own():
    rows = lines(claude_code(2))
    side = [{**row, "isSidechain": True, "agentId": "a1"} for row in lines(claude_code(1))[1:]]

    recorded = calls([*rows, *side])

    assert len({call.conversation for call in recorded}) == 2
    assert texts(recorded[-1]).count("Where is parcel") == 1


def test_after_a_compaction_a_session_goes_on_with_its_summary():
    rows = lines(claude_code(3))
    summary = {"role": "user", "content": "The summary."}
    compact = {"type": "user", "isCompactSummary": True, "message": summary, "sessionId": "5e55"}

    recorded = calls([*rows[:-4], compact, *rows[-4:]])

    assert texts(recorded[-1]).count("Where is parcel") == 1
    assert "The summary." in texts(recorded[-1])


def test_a_message_that_the_client_made_up_is_no_answer():
    rows = lines(claude_code(1))
    for row in rows:
        if row["type"] == "assistant":
            row["message"]["model"] = "<synthetic>"

    assert calls(rows) == []


def test_after_a_compaction_a_codex_session_goes_on_with_what_it_left():
    rows = lines(codex(3))
    left = {
        "timestamp": "2026-11-20T10:00:00Z",
        "type": "compacted",
        "payload": {"message": "Sum."},
    }

    recorded = calls([*rows[:-6], left, *rows[-6:]])

    assert "Sum." in texts(recorded[-1])
    assert texts(recorded[-1]).count("Where is parcel") == 1


@pytest.mark.parametrize("line", [{"messages": []}, {"type": "user"}, [], None])
def test_other_lines_are_no_transcript(line: object):
    assert session_reader(line) is None
