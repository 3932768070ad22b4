"""Recorded answers of real providers to agents pass the gateway unchanged and are counted right."""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import UpstreamError, envelope
from proxy.records.receipt import Outcome, Receipt
from proxy.records.timeline import Timeline
from slo.usage import Usage
from tests.examples import examples
from tests.fakes.background_loop import running_in_thread
from tests.fakes.call_dependencies import call, fake_dependencies, route, serve_call
from tests.fakes.caller import FakeCaller
from tests.fakes.gateway_fixture import GatewayFixture
from tests.fakes.plain_http import PLAIN
from tests.fakes.recorded_answers import (
    FOLDER,
    RecordedExchange,
    ReplayUpstream,
    recorded_calls,
    replay_gateway,
)
from tests.fakes.upstream import EVENTS, FakeTransport, ScriptedAnswer, broken_connection

#: The statuses a caller gets for those recorded; see proxy.providers.failures.
STATUSES = {200: 200, 400: 400, 401: 502, 404: 404}
needs_tapes = pytest.mark.skipif(not FOLDER.exists(), reason=f"no recordings at {FOLDER}")


@dataclass(frozen=True)
class ReplayedRecording:
    """The results of a recording: the caller's answer, the upstream's request, and the receipt."""

    recording: RecordedExchange
    answer: httpx.Response
    heard: bytes
    receipt: Receipt


def usage(recording: RecordedExchange) -> Usage | None:
    """Return what the recorded answer says it used; None where it does not say."""
    usages = [payload.get("usage") or {} for payload in recording.payloads]
    usages += [(payload.get("response") or {}).get("usage") or {} for payload in recording.payloads]
    usage_object = next((usage_object for usage_object in reversed(usages) if usage_object), None)
    if usage_object is None:
        return None
    prompt = usage_object.get("prompt_tokens", usage_object.get("input_tokens", 0))
    output = usage_object.get("completion_tokens", usage_object.get("output_tokens", 0))
    read = _detail(usage_object, ("prompt_tokens_details", "input_tokens_details"), "cached_tokens")
    thought = _detail(
        usage_object, ("completion_tokens_details", "output_tokens_details"), "reasoning_tokens"
    )
    return Usage(input=prompt - read, cache_read=read, output=output - thought, reasoning=thought)


def _detail(document: Mapping[str, Any], places: tuple[str, ...], name: str) -> int:
    return next(
        (int((document.get(place) or {}).get(name) or 0) for place in places if place in document),
        0,
    )


async def _play(
    url: str, key: str, recorded: Mapping[str, RecordedExchange]
) -> dict[str, httpx.Response]:
    turns = asyncio.Semaphore(8)
    async with httpx.AsyncClient(timeout=30, trust_env=False, verify=PLAIN) as client:

        async def ask(number: str, recording: RecordedExchange) -> httpx.Response:
            headers = {
                "authorization": f"Bearer {key}",
                "content-type": "application/json",
                "x-client-request-id": number,
            }
            async with turns:
                return await client.post(
                    f"{url}/{recording.endpoint}", content=recording.asked, headers=headers
                )

        answers = await asyncio.gather(*(ask(*arguments) for arguments in recorded.items()))
    return dict(zip(recorded, answers, strict=True))


@pytest.fixture(scope="module")
def replayed_recordings(tmp_path_factory: pytest.TempPathFactory) -> list[ReplayedRecording]:
    recorded = {str(number): recording for number, recording in enumerate(recorded_calls())}
    folder = tmp_path_factory.mktemp("recordings")
    player = ReplayUpstream(recorded)
    with running_in_thread(lambda: replay_gateway(folder, recorded, player)) as gateway:
        answers = asyncio.run(_play(gateway.url, gateway.key, recorded))
        came = []
        for number, answer in answers.items():
            (receipt,) = gateway.receipts(answer.headers["x-request-id"])
            came.append(ReplayedRecording(recorded[number], answer, player.heard[number], receipt))
    return came


@needs_tapes
def test_all_recordings_are_played(replayed_recordings: list[ReplayedRecording]) -> None:
    assert len(replayed_recordings) == len(recorded_calls()) == 904


@needs_tapes
def test_a_recorded_answer_arrives_byte_for_byte(
    replayed_recordings: list[ReplayedRecording],
) -> None:
    changed = [
        one.recording.name
        for one in replayed_recordings
        if one.recording.status == 200 and one.answer.content != one.recording.answer
    ]

    assert changed == []
    assert [one.answer.status_code for one in replayed_recordings] == [
        STATUSES[one.recording.status] for one in replayed_recordings
    ]


@needs_tapes
def test_the_body_arrives_byte_for_byte_except_for_the_request_for_usage(
    replayed_recordings: list[ReplayedRecording],
) -> None:
    changed = [one for one in replayed_recordings if one.heard != one.recording.asked]

    for one in changed:
        body = one.recording.body
        assert body["stream"] is True, one.recording.name
        assert not (body.get("stream_options") or {}).get("include_usage"), one.recording.name
        wish = b',"stream_options":{"include_usage":true}}'
        assert "stream_options" in body or one.heard == one.recording.asked[:-1] + wish


@needs_tapes
def test_the_ledger_holds_the_usage_that_was_recorded(
    replayed_recordings: list[ReplayedRecording],
) -> None:
    wrong = []
    for one in replayed_recordings:
        if one.recording.status != 200:
            assert (one.receipt.outcome, one.receipt.usage) == (Outcome.FAILED, None)
            continue
        right = usage(one.recording)
        assert one.receipt.outcome is Outcome.ANSWERED
        assert one.receipt.estimated == (right is None), one.recording.name
        assert one.receipt.cost_nanos is not None
        if right is not None and one.receipt.usage != right:
            wrong.append((one.recording.name, one.receipt.usage, right))

    assert wrong == []


@needs_tapes
def test_usage_that_the_provider_did_not_report_is_estimated(
    replayed_recordings: list[ReplayedRecording],
) -> None:
    unsaid = [
        one
        for one in replayed_recordings
        if one.recording.status == 200 and usage(one.recording) is None
    ]

    for one in unsaid:
        assert one.receipt.usage is not None
        assert one.receipt.usage.prompt_tokens > 0
        assert one.receipt.usage.generated_tokens > 0


@dataclass(frozen=True)
class StreamResult:
    """The caller's side of a stream, and the stored receipt."""

    body: bytes
    told: bytes
    status: int
    error: str
    usage: Usage | None
    cost: int | None
    outcome: Outcome
    estimated: bool


@dataclass(frozen=True)
class RecordedStream:
    """A stream of an upstream, how it was asked for, and whether its connection dies at the end."""

    sent: bytes
    asked: bytes
    kind: str
    endpoint: str
    dies: bool = False

    def deliver(self, pieces: list[bytes]) -> StreamResult:
        """Return what comes of it in these pieces."""
        return asyncio.run(self._deliver(pieces))

    async def _deliver(self, pieces: list[bytes]) -> StreamResult:
        script = ScriptedAnswer(
            [*pieces, broken_connection()] if self.dies else pieces, headers=EVENTS
        )
        set_up, ledger = fake_dependencies(FakeTransport([script]), route(kind=self.kind))
        caller, delivered = FakeCaller(), b""
        try:
            await serve_call(call(self.asked, self.endpoint), caller, set_up, Timeline(lambda: 0.0))
        except UpstreamError as failure:
            delivered = envelope(failure)
        (receipt,) = ledger.receipts
        body = caller.body
        if self.endpoint == "responses":  # A run that means nothing is a comment, if it is alone.
            body = body.replace(b": ping\n\n", b"")
        return StreamResult(
            body, delivered, receipt.status, receipt.error, receipt.usage, receipt.cost_nanos,
            receipt.outcome, receipt.estimated,
        )  # fmt: skip

    @property
    def events(self) -> list[bytes]:
        """Its events, each with its blank line."""
        return [event for event in _BETWEEN.split(self.sent) if event]


_NAMES = re.compile(rb'"(\w+)":')
_BETWEEN = re.compile(rb"(?<=\n\n)|(?<=\r\n\r\n)")
_NO = {"message": "no credit on sk-verysecretkey123", "code": "server_error"}
_OPENAI_USAGE = {"prompt_tokens": 50, "completion_tokens": 10}
_USAGE = {"input_tokens": 50, "output_tokens": 10}
#: How upstreams say in a stream that they failed, and what was used: by wire and endpoint.
ERRORS: Mapping[tuple[str, str], tuple[dict[str, Any], ...]] = {
    ("openai", "chat/completions"): ({"error": _NO}, {"error": _NO, "usage": _OPENAI_USAGE}),
    ("openai", "responses"): (
        {"type": "error", **_NO},
        {"type": "response.failed", "response": {"error": _NO, "usage": None}},
        {"type": "response.failed", "response": {"error": _NO, "usage": _USAGE}},
    ),
}
_OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}


@st.composite
def corrupt_stream(draw: st.DrawFn, stream: RecordedStream) -> RecordedStream:
    """The stream cut off anywhere, cleanly or not, or failing in its own words before its end."""
    if draw(st.booleans()):
        offset = draw(st.integers(1, len(stream.sent)))
        return replace(stream, sent=stream.sent[:offset], dies=draw(st.booleans()))
    events = stream.events
    offset = draw(st.integers(0, len(events) - 1))
    error_event = draw(st.sampled_from(ERRORS.get((stream.kind, stream.endpoint), (_OVERLOADED,))))
    after = events[offset:] if draw(st.booleans()) else []
    error = f"data: {json.dumps(error_event)}\n\n".encode()
    content = b"".join([*events[:offset], error, *after])
    return replace(stream, sent=content, dies=draw(st.booleans()))


def pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    """The stream cut at those places."""
    return [stream[start:end] for start, end in pairwise(sorted({0, len(stream), *cuts}))]


def streaming_body(endpoint: str, model: str = "m", text: str = "Hi", options: str = "") -> bytes:
    event = (
        '"input":"%s"' if endpoint == "responses" else '"messages":[{"role":"user","content":"%s"}]'
    )
    return f'{{"model":"{model}","stream":true,{event % text}{options}}}'.encode()


def of_the_lab(gateway: GatewayFixture) -> Iterator[RecordedStream]:
    headers = {"authorization": f"Bearer {gateway.key}"}
    wires = (("gpt-lab", "openai"), ("claude-lab", "anthropic"))
    for (model, kind), endpoint, fault in product(
        wires, ("chat/completions", "responses"), ("ok", "crlf", "words=90", "early-usage")
    ):
        body = streaming_body(endpoint, model, f"Hé, [[fault:{fault}]]")
        httpx.post(f"{gateway.url}/{endpoint}", content=body, headers=headers, verify=PLAIN)
        yield RecordedStream(
            bytes(gateway.lab.exchanges[-1].sent), streaming_body(endpoint), kind, endpoint
        )


def of_the_tapes() -> Iterator[RecordedStream]:
    for recording in recorded_calls():
        if recording.is_stream and recording.status == 200:
            wants = bool(recording.body.get("stream_options"))
            options = ',"stream_options":{"include_usage":true}' if wants else ""
            body = streaming_body(recording.endpoint, options=options)
            yield RecordedStream(recording.answer, body, "openai", recording.endpoint)


@pytest.fixture(scope="module")
def streams(gateway: GatewayFixture) -> list[RecordedStream]:
    return [*of_the_lab(gateway), *of_the_tapes()]


@examples(150)
@given(st.data())
def test_any_chunking_gives_the_same_bytes_and_the_same_usage(
    streams: list[RecordedStream], data: st.DataObject
) -> None:
    stream = data.draw(st.sampled_from(streams))
    if data.draw(st.booleans()):
        stream = data.draw(corrupt_stream(stream))
    cuts = data.draw(st.lists(st.integers(0, len(stream.sent)), max_size=60))

    assert stream.deliver(pieces(stream.sent, cuts)) == stream.deliver([stream.sent])


def shape(stream: RecordedStream) -> tuple[str, str, bytes, bool, frozenset[bytes]]:
    """The request, ends of lines, and names of members; streams of one shape are read alike."""
    names = frozenset(_NAMES.findall(stream.sent))
    return (stream.kind, stream.endpoint, stream.asked, b"\r\n" in stream.sent, names)


def test_a_byte_at_a_time_gives_the_same_bytes_and_the_same_usage(
    streams: list[RecordedStream],
) -> None:
    shortest = {
        shape(stream): stream for stream in sorted(streams, key=lambda stream: -len(stream.sent))
    }
    assert len(shortest) >= 16
    for stream in shortest.values():
        single = [stream.sent[start : start + 1] for start in range(len(stream.sent))]
        came = stream.deliver(single)

        assert came == stream.deliver([stream.sent])
        assert came.outcome is Outcome.ANSWERED
