import orjson
import pytest

from proxy.providers.answers.generated_text import (
    answer_pieces,
    has_content,
    stream_choices,
    stream_pieces,
)


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
        (chat(tool_calls=[{"function": {"arguments": {"a": 1}}}]), ['{"a":1}']),
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
        (
            {
                "candidates": [
                    {
                        "content": {
                            "parts": [
                                {"text": "Hm", "thought": True},
                                {"functionCall": {"name": "f", "args": {"a": 1}}},
                            ]
                        }
                    }
                ]
            },
            ["Hm", "f", '{"a":1}'],
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


def choice(**fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "finish_reason": None, **fields}]}


@pytest.mark.parametrize(
    "event",
    [
        chat(role="assistant", content="", refusal=None),
        {"choices": [], "prompt_filter_results": [{}]},
        choice(text=""),
        choice(),
        {"type": "response.created", "response": {"output": []}},
        {"type": "response.in_progress"},
        {"type": "response.queued"},
        {"type": "response.output_item.added", "item": {"type": "message"}},
        {"type": "response.content_part.added"},
        {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_start", "content_block": {"type": "thinking"}},
        {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {}},
        {"type": "ping"},
        {"type": "content_block_start", "content_block": {"type": "compaction", "content": None}},
        {"type": "content_block_delta", "delta": {"type": "compaction_delta", "content": "So far"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "response.output_item.added", "item": {"type": "compaction"}},
        {"type": "response.compaction.compacting", "item_id": "cmp_1"},
        {"type": "response.output_item.done", "item": {"type": "compaction"}},
    ],
)
def test_an_event_that_opens_a_stream_has_no_content(event):
    assert not has_content(str(event.get("type", "")), orjson.dumps(event))


@pytest.mark.parametrize(
    "event",
    [
        chat(content="H"),
        chat(refusal="No"),
        chat(reasoning_content="So"),
        chat(tool_calls=[{"index": 0}]),
        chat(audio={"id": "a"}),
        choice(finish_reason="stop"),
        choice(text="H"),
        choice(message={"content": "H"}),
        {"choices": [7]},
        {"type": "response.output_text.delta", "delta": "H"},
        {"type": "response.output_item.done"},
        {"type": "response.output_item.done", "item": {"type": "message"}},
        {"type": "response.completed"},
        {"type": "response.incomplete"},
        {"type": "content_block_start", "content_block": {"type": "tool_use", "name": "f"}},
        {"type": "content_block_start"},
        {"type": "content_block_delta", "delta": {"type": "text_delta"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_delta", "delta": {"stop_reason": "compaction"}},
        {"type": "content_block_start", "content_block": {"type": ["compaction"]}},
        {"type": "image_generation.partial_image"},
        {"type": "speech.audio.delta"},
        [1],
    ],
)
def test_all_events_but_openings_have_content(event):
    kind = event.get("type", "") if isinstance(event, dict) else ""
    assert has_content(kind, orjson.dumps(event))


def test_an_unreadable_event_counts_as_content():
    assert has_content("", b"{")


#: More keys than are parsed into objects.
DENSE = b",".join([b'"a":{"b":1}'] * 60_000)


def test_the_text_of_an_answer_with_very_many_keys_is_found_without_parsing_it():
    body = b'{%b,"choices":[{"message":{"content":"He said \\"text\\": \\"no\\"","x":"y"}}],%b'

    for end in (DENSE + b"}", b'"text" : "to the end'):
        texts = [piece for _, piece in answer_pieces(body % (DENSE, end))]
        assert texts[0] == r"He said \"text\": \"no\""
        assert texts[1:] == (["to the end"] if b"end" in end else [])


@pytest.mark.parametrize("gap", range(0, 80, 7))
def test_text_is_found_wherever_it_stands_in_such_an_answer(gap):
    filler = b"{%b}" % (DENSE[: 65_500 - 65_500 % 12] + b'"z":1' + b" " * gap)
    body = b'{"a":[%b%b,"text":"Hello","b":{%b}' % (b" " * gap, filler, DENSE)

    assert [piece for _, piece in answer_pieces(body)] == ["Hello"]


def test_the_text_of_an_event_with_very_many_keys_is_found_too():
    run = b'data: {"choices":[{"delta":{"content":"Hi"}}],%b}\n\n' % DENSE

    assert [piece for _, piece in stream_pieces(run)] == ["Hi"]


def test_an_event_with_very_many_keys_is_content():
    role = b'{"choices":[{"index":0,"delta":{"role":"assistant"}}]%b}'

    assert not has_content("", role % b"")
    assert has_content("", role % (b"," + DENSE))
    assert not has_content("response.created", role % (b"," + DENSE))


def test_choices_of_a_stream_are_those_that_any_event_names():
    run = (
        b'data: {"choices":[{"index":0,"delta":{"role":"assistant"}},{"index":2}]}\n\n'
        b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n'
        b'data: {"candidates":[{"index":1}]}\n\n'
        b'data: {"choices":7}\n\ndata: {"choices":[\n\ndata: [DONE]\n\n'
    )

    assert stream_choices(run) == {0, 1, 2}
