import orjson
import pytest

from proxy.wire.delivered import answer_pieces, stream_pieces


def texts(*values: object) -> list[str]:
    run = b"".join(b"data: " + orjson.dumps(value) + b"\n\n" for value in values)
    return [piece for _, piece in stream_pieces(run)]


def chat(**delta: object) -> dict[str, object]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


@pytest.mark.parametrize(
    ("event", "pieces"),
    [
        (chat(role="assistant", content=""), []),
        (chat(content="Hi"), ["Hi"]),
        (chat(refusal="No"), ["No"]),
        (chat(reasoning_content="Hm", content=None), ["Hm"]),
        (chat(reasoning="Hm"), ["Hm"]),
        (chat(reasoning="Hm", reasoning_content="Hm"), ["Hm"]),
        (
            chat(tool_calls=[{"index": 0, "id": "t", "function": {"name": "f", "arguments": "{"}}]),
            ["f", "{"],
        ),
        (chat(tool_calls=[{"index": 0, "custom": {"name": "f", "input": "x"}}]), ["f", "x"]),
        (chat(function_call={"name": "f", "arguments": "{}"}), ["f", "{}"]),
        (
            chat(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]),
            ["Hm"],
        ),
        (chat(audio={"data": "AAAA", "transcript": "Hi"}), ["Hi"]),
        ({"choices": [{"index": 0, "text": "Hi", "logprobs": {"text": "no"}}]}, ["Hi"]),
        ({"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}, ["Hi"]),
        ({"type": "response.function_call_arguments.delta", "delta": "{"}, ["{"]),
        ({"type": "response.audio.delta", "delta": "AAAA"}, []),
        ({"type": "response.output_text.delta", "delta": {"text": "odd"}}, []),
        ({"type": "response.output_text.done", "text": "Hi"}, []),
        ({"type": "response.content_part.added", "part": {"text": "Hi"}}, []),
        (
            {"type": "response.output_item.added", "item": {"name": "f", "arguments": ""}},
            ["f"],
        ),
        ({"type": "response.completed", "response": {"output": [{"name": "f"}]}}, []),
        ({"type": "transcript.text.delta", "delta": "Hi"}, ["Hi"]),
        ({"type": "transcript.text.done", "text": "Hi"}, []),
        ({"type": "message_start", "message": {"content": [], "model": "m"}}, []),
        (
            {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "tool_use", "name": "f", "input": {}},
            },
            ["f"],
        ),
        ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}}, ["Hi"]),
        ({"type": "content_block_delta", "delta": {"partial_json": '{"a'}}, ['{"a']),
        ({"type": "content_block_delta", "delta": {"thinking": "Hm"}}, ["Hm"]),
        ({"type": "content_block_delta", "delta": {"signature": "AAAA"}}, []),
        ({"type": "error", "error": {"message": "Overloaded"}, "message": "Overloaded"}, []),
        ({"type": 7, "choices": "odd", "content": None}, []),
        (["not an object"], []),
    ],
)
def test_each_event_gives_the_text_that_was_generated(event: object, pieces: list[str]) -> None:
    assert texts(event) == pieces


def test_malformed_events_are_skipped() -> None:
    run = b'data: {"choices":\n\ndata: [DONE]\n\n: ping\n\ndata: {"choices":[{"text":"Hi"}]}\n\n'

    assert [piece for _, piece in stream_pieces(run)] == ["Hi"]


def test_parallel_tool_calls_keep_to_their_places() -> None:
    run = b"".join(
        b"data: "
        + orjson.dumps(chat(tool_calls=[{"index": n, "function": {"arguments": str(n)}}]))
        + b"\n\n"
        for n in (0, 1, 0)
    )

    first, second, third = [place for place, _ in stream_pieces(run)]

    assert first == third != second


@pytest.mark.parametrize(
    ("body", "pieces"),
    [
        ({"choices": [{"message": {"role": "assistant", "content": "Hi"}}]}, ["Hi"]),
        ({"choices": [{"text": "Hi"}], "usage": {"input": "no"}}, ["Hi"]),
        (
            {
                "text": {"format": {"name": "no"}},
                "instructions": "no",
                "reasoning": {"summary": "detailed"},
                "output": [
                    {"type": "reasoning", "summary": [{"text": "Hm"}]},
                    {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]},
                    {"type": "function_call", "name": "f", "arguments": "{}"},
                ],
            },
            ["Hm", "Hi", "f", "{}"],
        ),
        (
            {
                "content": [
                    {"type": "text", "text": "Hi"},
                    {"type": "tool_use", "name": "f", "input": {"a": 1}},
                ]
            },
            ["Hi", "f", '{"a":1}'],
        ),
        ({"data": [{"embedding": [0.1], "text": "no"}]}, []),
        ([], []),
    ],
)
def test_each_answer_gives_the_text_that_was_generated(body: object, pieces: list[str]) -> None:
    assert [piece for _, piece in answer_pieces(orjson.dumps(body))] == pieces


def test_a_malformed_answer_gives_no_text() -> None:
    assert list(answer_pieces(b"<html>")) == []


def test_an_answer_nested_without_end_does_not_exhaust_the_stack() -> None:
    body = b'{"content":[' * 500 + b'{"text":"deep"}' + b"]}" * 500

    assert list(answer_pieces(body)) == []
