"""Diagnostics that only the gateway asked for are removed from answers; all else is unchanged."""

import msgspec
import pytest

from proxy.providers.diagnostics_filter import DiagnosticsFilter

SAID = '{"type": "cache_miss", "reason": "input_changed", "cache_missed_tokens": 7}'
RESPONSE = (
    '{ "id": "resp_1", "output": [ {"text": "\\u00e4"} ], "prompt_cache_diagnostics": '
    + SAID
    + ', "prompt_cache_options": {"mode": "implicit", "comparison_response_id": "resp_0"} }'
)
BARE = {
    "id": "resp_1",
    "output": [{"text": "ä"}],
    "prompt_cache_options": {"mode": "implicit"},
}


def event(name: str, data: str) -> bytes:
    return f"event: {name}\ndata: {data}\n\n".encode()


def test_a_response_is_passed_on_without():
    found = DiagnosticsFilter(streamed=False).feed(RESPONSE.encode())

    assert msgspec.json.decode(found) == BARE
    assert b'[ {"text": "\\u00e4"} ]' in found


def test_a_stream_is_passed_on_without():
    delta = event("response.output_text.delta", '{"type": "x", "delta": "a"}')
    done = event("response.completed", f'{{"type": "response.completed", "response": {RESPONSE}}}')
    found = DiagnosticsFilter(streamed=True).feed(delta + done)

    assert found.startswith(delta + b"event: response.completed\ndata: ")
    assert found.endswith(b"\n\n")
    data = found.removeprefix(delta).split(b"data: ")[1]
    assert msgspec.json.decode(data)["response"] == BARE


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "piece",
    [
        b'{"output": "prompt_cache_diagnostics"}',
        b'data: {"delta": "comparison_response_id"}\n\n',
        b'data: {"delta": "\\"comparison_response_id\\""}\n\n',
        b'{"prompt_cache_diagnostics": ',
        b'{"metadata": { "comparison_response_id":  "mine" }}',
        b'data: {"prompt_cache_diagnostics": }\n\n',
        b"",
    ],
)
def test_whatever_else_goes_by_is_not_touched(streamed, piece):
    reader = DiagnosticsFilter(streamed=streamed)

    assert (reader.feed(piece), reader.end()) == (piece, b"")
