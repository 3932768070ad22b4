"""The older text completions."""

from typing import Any

import pytest

from proxy.errors import UpstreamError
from proxy.tools.simulator.apis.completions import answer, events, midway, read_completions_request
from proxy.tools.simulator.replies import ModelReply, ReadingContext
from tests.proxy.tools.simulator.scene import scripted_reply


def body(prompt: object, **fields: Any) -> dict[str, Any]:
    return {"model": "gpt-6.1-sol", "prompt": prompt} | fields


@pytest.mark.parametrize("prompt", ["Say hi", ["Say hi"]])
def test_a_completion_of_one_text_has_it_as_its_prompt(
    context: ReadingContext, prompt: object
) -> None:
    request = read_completions_request(body(prompt), context)

    assert context.vocabulary.ids("Say hi")[0] in request.prompt.blocks[0].tokens
    assert request.max_tokens == 16


def test_token_ids_are_a_prompt_too(context: ReadingContext) -> None:
    assert 4711 in read_completions_request(body([4711, 4712]), context).prompt.blocks[0].tokens
    assert 4711 in read_completions_request(body([[4711, 4712]]), context).prompt.blocks[0].tokens


@pytest.mark.parametrize("prompt", [None, "", [], ["a", "b"], 5, [[1], [2]]])
def test_anything_else_is_refused(context: ReadingContext, prompt: object) -> None:
    with pytest.raises(UpstreamError) as refused:
        read_completions_request(body(prompt), context)

    assert refused.value.param == "prompt"


def test_an_answer_is_text_and_usage(context: ReadingContext) -> None:
    document = answer(
        scripted_reply(
            read_completions_request(body("a"), context), ModelReply(text="So.", finish="length")
        )
    )

    assert document["choices"][0] == {
        "index": 0,
        "text": "So.",
        "logprobs": None,
        "finish_reason": "length",
    }
    assert document["usage"]["prompt_tokens"] == 37
    assert document["object"] == "text_completion"


def test_a_stream_tells_usage_only_where_asked(context: ReadingContext) -> None:
    plain = events(scripted_reply(read_completions_request(body("a"), context)))
    counted = events(
        scripted_reply(
            read_completions_request(body("a", stream_options={"include_usage": True}), context)
        )
    )
    chunks = [event.payload for event in counted if event.payload]

    assert all("usage" not in (event.payload or {}) for event in plain)
    assert [chunk["usage"] is None for chunk in chunks] == [True] * (len(chunks) - 1) + [False]
    assert chunks[-1]["choices"] == []
    assert plain[-1].payload is counted[-1].payload is None
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks[:-1]) == "It is so."


def test_usage_told_midway_is_not_yet_all_of_it(context: ReadingContext) -> None:
    payload = midway(scripted_reply(read_completions_request(body("a"), context))).payload

    assert payload is not None
    assert payload["usage"]["completion_tokens"] == 2
