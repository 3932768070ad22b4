"""Tool calls of chat answers, in every way that upstreams write them and through every reader."""

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import UpstreamError
from proxy.providers.answers.assistant_message import assistant_message
from proxy.providers.chat.call_parts import CallAssignment, CallPart
from proxy.providers.messages.reader import messages_reader
from proxy.providers.readers import PassthroughReader
from proxy.providers.responses.reader import responses_reader
from tests.fakes.messages_calls import (
    Call,
    Json,
    calls_by_messages_stream,
    chat_stream,
    chunk,
    completion,
    message_of,
    payloads,
    settings,
)
from tests.proxy.providers.chat.call_streams import (
    FORMS,
    NAMELESS_FORMS,
    Deltas,
    function,
    pieces,
)

_BODY = b'{"model":"m","input":"Hi","stream":true}'


names = st.sampled_from(["get", "put", "list_all"])
arguments = st.dictionaries(
    st.text(max_size=4), st.integers(-9, 9) | st.text(max_size=6), max_size=3
).map(lambda value: orjson.dumps(value).decode())
calls_with_ids = st.lists(st.tuples(names, arguments), min_size=1, max_size=4).map(
    lambda made_calls: [(f"call_{number}", *one) for number, one in enumerate(made_calls)]
)


def stream(deltas: Deltas, words: str = "") -> bytes:
    """A chat stream of these calls, with words between their parts."""
    chunks = []
    for parts in deltas:
        chunks += [chunk(tool_calls=parts), *([chunk(content=words)] if words else [])]
    return chat_stream(*chunks, chunk("tool_calls"))


def calls_by_responses_stream(run: bytes) -> list[Call]:
    """The calls in the events of a Responses stream; they agree with its last event."""
    reader = responses_reader(PassthroughReader(), _BODY, streamed=True, created=1.0)
    events = payloads(reader.feed(run) + reader.end())
    deltas: dict[int, str] = {}
    for event in events:
        if event["type"] == "response.function_call_arguments.delta":
            index = event["output_index"]
            deltas[index] = deltas.get(index, "") + event["delta"]
    output = events[-1]["response"]["output"]
    items = {place: item for place, item in enumerate(output) if item["type"] == "function_call"}
    assert all(item["arguments"] == deltas.get(place, "") for place, item in items.items())
    return [(item["call_id"], item["name"], item["arguments"]) for item in items.values()]


def response_of(body: bytes) -> list[Json]:
    """The output items of a whole chat answer."""
    reader = responses_reader(PassthroughReader(), _BODY, streamed=False, created=1.0)
    return list(orjson.loads(reader.feed(body))["output"])


def calls_by_assistant_message(run: bytes) -> list[Call]:
    """The calls that the next turn's history is expected to hold."""
    return calls_of_message(assistant_message([run], streamed=True))


def calls_of_message(message: bytes | None) -> list[Call]:
    return [
        (call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in orjson.loads(message or b"{}")["tool_calls"]
    ]


READERS = (calls_by_messages_stream, calls_by_responses_stream, calls_by_assistant_message)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("form", FORMS)
@given(calls=calls_with_ids, words=st.sampled_from(["", "\n", "so"]))
def test_calls_of_a_stream_are_those_of_the_model(form, read, calls, words):
    run = stream(FORMS[form](calls), words)
    expected = [(call_id, name, orjson.loads(text)) for call_id, name, text in calls]

    assert [(call[0], call[1], orjson.loads(call[2])) for call in read(run)] == expected


@pytest.mark.parametrize("read", [calls_by_messages_stream, calls_by_responses_stream])
@pytest.mark.parametrize("form", NAMELESS_FORMS)
@pytest.mark.parametrize("call_id", [None, ""])
@given(calls=calls_with_ids)
def test_calls_of_a_stream_without_ids_get_their_own(form, read, call_id, calls):
    run = stream(FORMS[form]([(call_id, name, text) for _, name, text in calls]))
    made_calls = read(run)

    assert [call[1:] for call in made_calls] == [call[1:] for call in calls]
    assert len({call[0] for call in made_calls}) == len(calls)


def legacy_calls(run: bytes) -> list[Call]:
    """The call in the form that OpenAI had before ``tool_calls``, as the next turn has it."""
    call = orjson.loads(assistant_message([run], streamed=True) or b"{}")["function_call"]
    return [("", call["name"], call["arguments"])]


@pytest.mark.parametrize(
    "read", [calls_by_messages_stream, calls_by_responses_stream, legacy_calls]
)
@given(calls=calls_with_ids, is_split=st.booleans())
def test_function_call_of_a_stream_is_a_call_like_others(read, calls, is_split):
    _, name, text = calls[0]
    parts = [function("", name), *map(function, pieces(text))] if is_split else []
    parts = parts or [function(text, name)]
    run = chat_stream(
        *(chunk(function_call=part) for part in parts),
        chunk(function_call=None),
        chunk("function_call", function_call={}),
    )

    assert [call[1:] for call in read(run)] == [(name, text)]


@pytest.mark.parametrize("message", [{"role": "assistant"}, {"role": "assistant", "content": "I"}])
def test_function_call_of_a_whole_answer_is_a_call_like_others(message):
    body = completion("function_call", **message, function_call=function('{"x":1}', "f"))
    item = response_of(body)[-1]
    answer = message_of(body)
    block = answer["content"][-1]

    assert (block["type"], block["name"], block["input"]) == ("tool_use", "f", {"x": 1})
    assert answer["stop_reason"] == "tool_use"
    assert (item["type"], item["name"], item["arguments"]) == ("function_call", "f", '{"x":1}')


NAMELESS: dict[str, Json] = {
    "id and arguments": {"index": 0, "id": "a", "function": function("{}")},
    "id alone": {"index": 0, "id": "a"},
    "arguments alone": {"function": function("{}", "")},
}


@pytest.mark.parametrize("is_done", [True, False], ids=["[DONE]", "no [DONE]"])
@pytest.mark.parametrize("part", NAMELESS.values(), ids=NAMELESS)
def test_stream_whose_call_has_no_name_ends_with_an_error_event(part, is_done):
    run = stream(iter([[part], [{"index": 1, "id": "b", "function": function("{}", "f")}]]))
    run = run if is_done else run.removesuffix(b"data: [DONE]\n\n")
    events = []
    for reader in (
        messages_reader(PassthroughReader(), settings(), streamed=True),
        responses_reader(PassthroughReader(), _BODY, streamed=True, created=1.0),
    ):
        events += payloads(reader.feed(run))
        with pytest.raises(UpstreamError) as raised:
            events += payloads(reader.end())
        assert raised.value.retryable
        events += payloads(raised.value.stream_ending)

    kinds = [event["type"] for event in events]
    assert not {"message_stop", "response.completed"} & set(kinds)
    assert "error" in kinds
    assert kinds[-1] == "response.failed"
    assert "" not in [event.get("item", {}).get("name") for event in events]
    numbers = [event["sequence_number"] for event in events if "sequence_number" in event]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("part", NAMELESS.values(), ids=NAMELESS)
def test_whole_answer_whose_call_has_no_name_is_a_failure_that_may_be_retried(part):
    body = completion("tool_calls", tool_calls=[part])
    for read in (message_of, response_of):
        with pytest.raises(UpstreamError, match="could not be read") as raised:
            read(body)
        assert raised.value.retryable


@given(calls=calls_with_ids, same_id=st.booleans(), index=st.sampled_from([None, 0, "0"]))
def test_calls_of_a_whole_answer_count_by_position(calls, same_id, index):
    given_ids = ["call_0" if same_id else call_id for call_id, _, _ in calls]
    parts = [
        {"id": call_id, "type": "function", "index": index, "function": function(text, name)}
        for call_id, (_, name, text) in zip(given_ids, calls, strict=True)
    ]
    body = completion("tool_calls", tool_calls=parts)
    blocks, items = message_of(body)["content"], response_of(body)
    expected = [(name, orjson.loads(text)) for _, name, text in calls]

    assert [(block["name"], block["input"]) for block in blocks] == expected
    assert [(one["name"], orjson.loads(one["arguments"])) for one in items] == expected
    next_turn = calls_of_message(assistant_message([body], streamed=False))
    assert [one[0] for one in next_turn] == [item["call_id"] for item in items]
    assert (
        len({block["id"] for block in blocks}) == len({one[0] for one in next_turn}) == len(calls)
    )
    if not same_id:
        assert [item["call_id"] for item in items] == given_ids


def convert_parts(*parts: Json) -> list[CallPart]:
    return [msgspec.json.decode(orjson.dumps(part), type=CallPart) for part in parts]


def call_numbers(*parts: Json) -> list[int]:
    assignment = CallAssignment()
    return [assignment.find(part).number for part in convert_parts(*parts)]


def test_part_with_the_id_of_an_earlier_call_goes_to_that_call():
    assert call_numbers(
        {"index": 0, "id": "a", "function": function("{", "f")},
        {"index": 0, "id": "b", "function": function("{", "g")},
        {"index": 0, "id": "a", "function": function("}")},
        {"function": function("}")},
    ) == [0, 1, 0, 1]


def test_part_with_a_new_id_and_no_name_continues_the_open_call_of_its_index():
    assert call_numbers(
        {"index": 0, "id": "a", "function": function("{", "f")},
        {"index": 1, "id": "b", "function": function("{", "g")},
        {"index": 0, "id": "c", "function": function("}")},
        {"index": 0, "id": "c", "function": function(" ")},
        {"index": 1, "id": "d", "function": function('"x":1', "h")},
        {"index": 0, "id": "e"},
    ) == [0, 1, 0, 0, 2, 3]


def test_id_that_comes_late_is_that_of_its_call():
    assignment = CallAssignment()
    for part in convert_parts({"index": 0, "function": function("", "f")}, {"index": 0, "id": "a"}):
        assignment.find(part)

    assert [(call.id, call.name) for call in assignment.calls] == [("a", "f")]


def test_a_call_with_free_text_is_told_by_its_type_or_name():
    parts = convert_parts(
        {"type": "custom", "custom": {"name": "g", "input": "x"}, "function": {"name": ""}},
        {"custom": {"name": "g", "input": "x"}},
        {"type": "function", "custom": {"name": "g"}, "function": function("{}", "f")},
        {"custom": {"name": "", "input": ""}, "function": function("{}", "f")},
        {"custom": {}, "function": None},
    )

    assert [(part.is_custom, part.name, part.text) for part in parts] == [
        (True, "g", "x"),
        (True, "g", "x"),
        (False, "f", "{}"),
        (False, "f", "{}"),
        (False, "", ""),
    ]


def test_arguments_written_as_a_list_or_an_object_are_text():
    parts = convert_parts(
        {"function": function({"x": 1.0, "y": [12345678901234567890]})},
        {"function": function([])},
        {"function": function(None)},
    )

    assert [part.text for part in parts] == ['{"x":1.0,"y":[12345678901234567890]}', "{}", ""]
