"""OpenAI's embeddings: vectors that depend on the text alone.

Source: OpenAI API reference, embeddings (2026-11).
"""

from array import array
from base64 import b64encode
from collections.abc import Sequence
from hashlib import shake_256
from math import sqrt
from struct import pack

from proxy.tools.simulator.bodies import Body, tokens
from proxy.tools.simulator.models import SimulatedModel
from proxy.tools.simulator.refusals import provider_refusal
from proxy.tools.simulator.rendering import Vocabulary
from proxy.tools.simulator.streams import Json
from slo.usage import Usage

_MOST_INPUTS = 2048
_MOST_TOKENS = 8192


def embed_inputs(body: Body, model: SimulatedModel, vocabulary: Vocabulary) -> tuple[Json, Usage]:
    """The answer and what it used."""
    size = body.get("dimensions") or model.dimensions
    if not model.dimensions or type(size) is not int or not 0 < size <= model.dimensions:
        raise provider_refusal(
            400, "This model gives no vectors of that length.", param="dimensions"
        )
    inputs = [_ids(element, vocabulary) for element in _inputs(body.get("input"))]
    total = sum(len(ids) for ids in inputs)
    packed = body.get("encoding_format") == "base64"
    answer: Json = {
        "object": "list",
        "data": [
            {
                "object": "embedding",
                "index": index,
                "embedding": b64encode(pack(f"<{size}f", *vector(ids, size))).decode()
                if packed
                else vector(ids, size),
            }
            for index, ids in enumerate(inputs)
        ],
        "model": body["model"],
        "usage": {"prompt_tokens": total, "total_tokens": total},
    }
    return answer, Usage(input=total)


def vector(ids: Sequence[int], size: int) -> list[float]:
    """The vector of a text, of length one; each number fits a single float exactly."""
    seed = b",".join(b"%d" % token for token in ids)
    points = array("h")
    points.frombytes(shake_256(seed).digest(2 * size))
    length = sqrt(sum(point * point for point in points)) or 1.0
    return list(array("f", [point / length for point in points]))


def _inputs(value: object) -> Sequence[object]:
    if isinstance(value, list) and value and not isinstance(value[0], int):
        inputs: Sequence[object] = value
    else:
        inputs = [value]
    if len(inputs) > _MOST_INPUTS:
        raise provider_refusal(400, f"input: at most {_MOST_INPUTS} texts.", param="input")
    return inputs


def _ids(value: object, vocabulary: Vocabulary) -> Sequence[int]:
    ids = vocabulary.ids(value) if isinstance(value, str) else tokens(value)
    if not 0 < len(ids) <= _MOST_TOKENS:
        reason = f"input: each text must have 1 to {_MOST_TOKENS} tokens."
        raise provider_refusal(400, reason, code="invalid_value", param="input")
    return ids
