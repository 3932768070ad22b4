"""Vectors that depend on the text alone."""

from base64 import b64decode
from math import isclose
from struct import unpack
from typing import Any

import pytest

from proxy.errors import UpstreamError
from proxy.tools.simulator.apis.embeddings import embed_inputs, vector
from proxy.tools.simulator.models import MODELS
from proxy.tools.simulator.rendering import Vocabulary
from slo.usage import Usage

MODEL = MODELS["text-embedding-3-small"]


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "text-embedding-3-small", "input": "Hello world"} | fields


def test_a_vector_has_length_one_and_is_always_the_same() -> None:
    numbers = vector((1, 2), 256)

    assert len(numbers) == 256
    assert isclose(sum(number * number for number in numbers), 1.0, rel_tol=1e-5)
    assert numbers == vector((1, 2), 256)
    assert numbers != vector((12,), 256)


def test_each_text_gets_its_vector_and_all_are_counted(vocabulary: Vocabulary) -> None:
    answer, usage = embed_inputs(body(input=["Hello world", "Hello"]), MODEL, vocabulary)

    assert [entry["index"] for entry in answer["data"]] == [0, 1]
    assert len(answer["data"][0]["embedding"]) == 1536
    assert answer["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    assert usage == Usage(input=3)


def test_token_ids_are_a_text_too(vocabulary: Vocabulary) -> None:
    ids = list(vocabulary.ids("Hello world"))
    by_text, _ = embed_inputs(body(), MODEL, vocabulary)

    assert embed_inputs(body(input=ids), MODEL, vocabulary)[0] == by_text
    assert embed_inputs(body(input=[ids]), MODEL, vocabulary)[0] == by_text


def test_base64_holds_the_same_numbers(vocabulary: Vocabulary) -> None:
    plain, _ = embed_inputs(body(dimensions=8), MODEL, vocabulary)
    packed, _ = embed_inputs(body(dimensions=8, encoding_format="base64"), MODEL, vocabulary)

    unpacked = unpack("<8f", b64decode(packed["data"][0]["embedding"]))
    assert list(unpacked) == plain["data"][0]["embedding"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"input": ""},
        {"input": []},
        {"input": None},
        {"input": [""]},
        {"input": [None]},
        {"input": ["a"] * 2049},
        {"input": "word " * 9000},
        {"dimensions": 1537},
        {"dimensions": -1},
        {"dimensions": "8"},
    ],
)
def test_an_embeddings_body_that_openai_refuses_is_refused(
    wrong: dict[str, Any], vocabulary: Vocabulary
) -> None:
    with pytest.raises(UpstreamError):
        embed_inputs(body(**wrong), MODEL, vocabulary)


def test_a_model_that_writes_text_gives_no_vectors(vocabulary: Vocabulary) -> None:
    with pytest.raises(UpstreamError):
        embed_inputs(body(), MODELS["gpt-5.5"], vocabulary)
