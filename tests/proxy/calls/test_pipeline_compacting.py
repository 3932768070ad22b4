"""Compaction by a provider passes through: what the caller sends and gets, and what it costs."""

from typing import Any

import orjson
import pytest
from openai.types.responses import CompactedResponse, Response, ResponseCompactionItem

from proxy.records.receipt import Outcome
from slo.usage import Usage
from tests.fakes.answers import STREAMED, event, stream
from tests.fakes.call_dependencies import call, route
from tests.fakes.upstream import After, ScriptedAnswer, broken_connection
from tests.proxy.api.served_calls import serve_one_call

ITEM = {"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAAAB=="}
USAGE = {
    "input_tokens": 900,
    "input_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 100},
    "output_tokens": 50,
    "output_tokens_details": {"reasoning_tokens": 10},
    "total_tokens": 950,
}
SPENT = Usage(input=200, cache_read=600, write_30m=100, output=40, reasoning=10)
#: Written as no program of ours would, so that a rewritten body shows.
ASKED = (
    b'{ "model":"m", "input":[{"type":"compaction","encrypted_content":"gAAAAA==","id":"cmp_0"},'
    b'{"role":"user","content":"On."} ], "context_management" : '
    b'[ {"type":"compaction","compact_threshold":200000.0} ] }'
)
WHOLE = orjson.dumps(
    {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "output": [ITEM],
        "usage": USAGE,
    },
    option=orjson.OPT_INDENT_2,
)
COMPACTED = orjson.dumps(
    {
        "id": "resp_2",
        "object": "response.compaction",
        "created_at": 1,
        "output": [ITEM],
        "usage": USAGE,
    },
    option=orjson.OPT_INDENT_2,
)


@pytest.mark.parametrize(
    ("endpoint", "answer", "shape"),
    [("responses", WHOLE, Response), ("responses/compact", COMPACTED, CompactedResponse)],
)
def test_a_compaction_by_openai_passes_byte_for_byte_and_is_priced_by_its_usage(
    endpoint: str, answer: bytes, shape: Any
) -> None:
    done = serve_one_call(ScriptedAnswer([answer]), sent_call=call(ASKED, endpoint=endpoint))

    prepared = done.transport.sent[-1][1]
    assert (prepared.path, prepared.body) == (f"/{endpoint}", ASKED)
    assert done.caller.body == answer
    assert done.last.usage == SPENT
    assert not done.last.estimated
    assert isinstance(shape.model_validate_json(done.caller.body).output[0], ResponseCompactionItem)


def test_a_stream_passes_with_its_compaction_and_is_priced_by_its_end() -> None:
    pieces = [
        event({"type": "response.created", "response": {"id": "resp_1"}}),
        event({"type": "response.output_item.added", "output_index": 0, "item": ITEM}),
        event({"type": "response.compaction.compacting", "item_id": "cmp_1", "output_index": 0}),
        event({"type": "response.output_item.done", "output_index": 0, "item": ITEM}),
        event({"type": "response.completed", "response": orjson.loads(WHOLE)}),
    ]
    request = call(ASKED.rstrip(b" }") + b',"stream":true}', endpoint="responses")
    done = serve_one_call(stream(*pieces), sent_call=request)

    assert done.transport.sent[-1][1].body == request.body
    assert done.caller.body == b"".join(pieces)
    assert done.last.usage == SPENT


CLAUDE_COMPACTS = (
    event({"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 20}}}),
    event({"type": "content_block_start", "index": 0, "content_block": {"type": "compaction"}}),
    After(
        3.0,
        event(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "compaction_delta", "content": "so far"},
            }
        ),
    ),
    event({"type": "content_block_stop", "index": 0}),
    event({"type": "content_block_start", "index": 1, "content_block": {"type": "text"}}),
)
CLAUDE_ANSWERS = (
    After(
        2.0,
        event(
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "text_delta", "text": "on"},
            }
        ),
    ),
    event({"type": "content_block_stop", "index": 1}),
    event(
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 5},
        }
    ),
    event({"type": "message_stop"}),
)
CLAUDES = route("anthropic", "anthropic")


def test_the_first_token_is_the_answers_and_not_its_compactions() -> None:
    done = serve_one_call(
        stream(*CLAUDE_COMPACTS, *CLAUDE_ANSWERS), sent_call=call(STREAMED), routes=(CLAUDES,)
    )

    assert done.last.ttft == pytest.approx(5.0)
    assert b'"thinking_blocks":[{"type":"compaction","content":"so far"' in done.caller.body
    assert b'"content":"on"' in done.caller.body


def test_an_upstream_that_breaks_while_it_compacts_is_asked_again() -> None:
    done = serve_one_call(
        stream(*CLAUDE_COMPACTS, broken_connection()),
        stream(*CLAUDE_COMPACTS, *CLAUDE_ANSWERS),
        sent_call=call(STREAMED),
        routes=(CLAUDES,),
    )

    assert [receipt.outcome for receipt in done.receipts] == [Outcome.FAILED, Outcome.ANSWERED]
    assert done.caller.body.count(b"so far") == 1


def test_a_chat_call_that_claude_compacts_pays_for_every_pass() -> None:
    block = {"type": "compaction", "content": "so far", "encrypted_content": "b3BhcXVl"}
    answer = {
        "id": "msg_1",
        "content": [block, {"type": "text", "text": "on"}],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 20,
            "output_tokens": 5,
            "iterations": [
                {"type": "compaction", "input_tokens": 10, "cache_read_input_tokens": 500,
                 "cache_creation_input_tokens": 0, "output_tokens": 30},
                {"type": "message", "input_tokens": 20, "cache_read_input_tokens": 0,
                 "cache_creation_input_tokens": 0, "output_tokens": 5},
            ],
        },
    }  # fmt: skip
    edits = {"edits": [{"type": "compact_20260112"}]}
    first = {"role": "user", "content": "Hello"}
    fields = {"model": "m", "messages": [first], "context_management": edits}
    claude = route("anthropic", "anthropic")
    done = serve_one_call(
        ScriptedAnswer([orjson.dumps(answer)]),
        sent_call=call(orjson.dumps(fields)),
        routes=(claude,),
    )

    prepared = done.transport.sent[-1][1]
    assert prepared.headers["anthropic-beta"] == "compact-2026-01-12"
    assert done.last.usage == Usage(input=30, cache_read=500, output=35)
    message = orjson.loads(done.caller.body)["choices"][0]["message"]
    again = call(
        orjson.dumps(fields | {"messages": [first, message, {"role": "user", "content": "And?"}]})
    )
    later = serve_one_call(
        ScriptedAnswer([orjson.dumps(answer)]), sent_call=again, routes=(claude,)
    )
    later_fields = orjson.loads(later.transport.sent[-1][1].body)
    assert later_fields["messages"][1]["content"] == [block, {"type": "text", "text": "on"}]
    assert later_fields["context_management"] == edits
