import pytest

from proxy.tools.bench.stream_timing import AnswerTimer, CallTiming, EngineTiming, error_name
from tests.fakes.streams import chat_usage, chunk, event

DONE = b"data: [DONE]\n\n"
STOP = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})


def usage(prompt: int, generated: int, **rest: object) -> bytes:
    return event({"choices": [], "usage": chat_usage(prompt, generated, **rest)})


def timing_of(*pieces: tuple[float, bytes], end: float = 9.0) -> CallTiming:
    timer = AnswerTimer(1.0)
    for second, piece in pieces:
        timer.feed(second, piece)
    return timer.call_timing(end)


def test_ttft_is_the_first_chunk_with_content_not_the_one_with_the_role():
    role = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
    call = timing_of((1.1, role), (1.5, chunk("a")), (1.75, chunk("b")), (1.8, STOP + DONE))

    assert call.ttft_s == pytest.approx(0.5)
    assert call.chunk_gaps_s == pytest.approx((0.25,))


def test_tokens_are_those_of_the_usage_and_never_chunks():
    call = timing_of(
        (2.0, chunk("many words")), (3.0, chunk("and more")), (3.0, STOP), (3.0, usage(7, 9))
    )

    assert call.output_tokens == 9
    assert call.itl_s == pytest.approx(1.0 / 8)
    assert call.tokens_per_chunk == pytest.approx(4.5)


def test_without_a_usage_tokens_are_unknown():
    call = timing_of((2.0, chunk("a")), (3.0, chunk("b")), (3.0, STOP + DONE))

    assert (call.output_tokens, call.itl_s, call.tokens_per_chunk) == (None, None, None)
    assert call.error == ""


def test_cached_tokens_are_unknown_where_the_usage_does_not_tell_them():
    usage_document = usage(100, 5, prompt_tokens_details={"cached_tokens": 64})
    untold = usage(100, 5)

    assert timing_of((2.0, chunk("a") + STOP + usage_document)).cached_tokens == 64
    assert timing_of((2.0, chunk("a") + STOP + untold)).cached_tokens is None


def test_hidden_reasoning_is_no_streamed_token():
    call = timing_of(
        (2.0, chunk("a")),
        (3.0, chunk("b") + STOP),
        (3.0, usage(5, 111, completion_tokens_details={"reasoning_tokens": 100})),
    )

    assert call.output_tokens == 111
    assert call.itl_s == pytest.approx(1.0 / 10)


def test_streamed_reasoning_is_content():
    thought = event({"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]})
    details = {"reasoning_tokens": 4}
    call = timing_of(
        (2.0, thought),
        (3.0, chunk("b") + STOP),
        (3.0, usage(5, 5, completion_tokens_details=details)),
    )

    assert call.ttft_s == pytest.approx(1.0)
    assert call.streamed_tokens == 5


def test_an_event_cut_into_two_pieces_counts_when_it_is_whole():
    text = chunk("a")
    call = timing_of((2.0, text[:10]), (2.5, text[10:]), (3.0, STOP))

    assert call.ttft_s == pytest.approx(1.5)


def test_an_error_inside_a_stream_is_a_failure_with_its_name():
    error_event = event(
        {"error": {"message": "EngineCore died", "type": "InternalServerError", "code": 500}}
    )

    assert (
        timing_of((2.0, chunk("a") + error_event + DONE)).error
        == "stream error: InternalServerError"
    )


@pytest.mark.parametrize(
    ("pieces", "error"),
    [
        (chunk("a"), "stream ended early"),
        (STOP + DONE, "no content"),
        (b"data: {\n\n" + DONE, "unreadable chunk"),
    ],
)
def test_a_stream_that_is_not_whole_is_a_failure(pieces, error):
    assert timing_of((2.0, pieces)).error == error


def test_llama_cpp_tells_its_own_times_and_acceptance():
    timings = {"prompt_ms": 120.0, "predicted_ms": 500, "draft_n": 40, "draft_n_accepted": 30}
    call = timing_of((2.0, chunk("a") + STOP), (2.0, event({"choices": [], "timings": timings})))

    assert call.engine is not None
    assert (call.engine.prefill_s, call.engine.decode_s) == pytest.approx((0.12, 0.5))
    assert (call.engine.draft_tokens, call.engine.accepted_tokens) == (40, 30)


def test_vllm_tells_its_own_times_and_acceptance():
    metrics = {
        "queue_time_ms": 3.0,
        "time_to_first_token_ms": 40.0,
        "generation_time_ms": 200.0,
        "speculative_decoding": {"num_draft_tokens": 52, "num_accepted_draft_tokens": 48},
    }
    call = timing_of((2.0, chunk("a") + STOP), (2.0, event({"choices": [], "metrics": metrics})))

    assert call.engine == EngineTiming(
        queue_s=0.003, prefill_s=0.04, decode_s=0.2, draft_tokens=52, accepted_tokens=48
    )


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ({"code": "model_not_found", "message": "m"}, "model_not_found"),
        ({"code": 429, "type": "rate_limit"}, "rate_limit"),
        ({"message": "too long"}, "too long"),
        ({}, "unnamed"),
        ("plain", "plain"),
    ],
)
def test_an_error_is_named_by_code_type_or_message(error, name):
    assert error_name(error) == name
