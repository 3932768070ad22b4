"""Reading a caller's body: the checks that every endpoint shares."""

from collections.abc import Mapping
from typing import Any

import orjson

from proxy.caches.port import Ttl
from proxy.tools.simulator.models import SimulatedModel
from proxy.tools.simulator.refusals import provider_refusal

Body = Mapping[str, Any]

#: Tokens of hidden reasoning by effort; the simulator's own figures.
EFFORTS: Mapping[str, int] = {
    "none": 0,
    "minimal": 16,
    "low": 64,
    "medium": 192,
    "high": 512,
    "xhigh": 1024,
    "max": 2048,
}
_TOKENS = 2**20  # no vocabulary is larger
_TTLS: Mapping[object, Ttl] = {"5m": "5m", "30m": "30m", "1h": "1h", "12h": "12h"}


def parse_body(raw: bytes) -> Body:
    """The body as an object."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise provider_refusal(400, "The body is not valid JSON.") from error
    if not isinstance(body, dict):
        raise provider_refusal(400, "The body must be a JSON object.")
    return body


def required_field(body: Body, name: str, kind: type | tuple[type, ...]) -> Any:  # noqa: ANN401 - JSON
    """The value of a field that must be there and not be empty."""
    value = body.get(name)
    if isinstance(value, kind) and value:
        return value
    code = "missing_required_parameter" if value is None else "invalid_type"
    raise provider_refusal(400, f"{name}: Field required, not empty.", code=code, param=name)


def output_bound(body: Body, names: tuple[str, ...], limit: int) -> int:
    """The first of those fields that bounds the answer, at most ``limit``."""
    for name in names:
        value = body.get(name)
        if value is None:
            continue
        if type(value) is not int or value < 1:
            raise provider_refusal(
                400, f"{name}: must be at least 1.", code="invalid_value", param=name
            )
        return min(value, limit)
    return limit


def wants_usage_chunk(body: Body, model: SimulatedModel) -> bool:
    """True if a stream is to tell its usage at its end.

    Source: OpenAI API reference, ``stream_options``; mistralai 3.7.0 (2026-11).
    """
    options = body.get("stream_options")
    if model.asks_usage:
        return bool((options or {}).get("include_usage"))
    if options is not None:
        raise provider_refusal(
            422, "stream_options: Extra inputs are not permitted", param="stream_options"
        )
    return True


def ttl(mark: object, default: Ttl) -> Ttl | None:
    """The lifetime a breakpoint asks for; None where there is no breakpoint."""
    if not isinstance(mark, dict):
        return None
    time_to_live = mark.get("ttl") or default
    if time_to_live not in _TTLS:
        raise provider_refusal(400, f"ttl: {time_to_live!r} is not supported.", param="ttl")
    return _TTLS[time_to_live]


def stops(value: object) -> tuple[str, ...]:
    """Stop sequences, given as one or as a list."""
    if value is None or isinstance(value, str):
        return (value,) if value else ()
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise provider_refusal(400, "stop: one text or a list of texts.", param="stop")
    return tuple(value)


def tokens(ids: object) -> tuple[int, ...]:
    """The token ids that were given instead of a text; none if that is not what they are."""
    if not isinstance(ids, list) or not all(type(token) is int for token in ids):
        return ()
    return tuple(ids) if all(0 <= token < _TOKENS for token in ids) else ()


def to_json(value: object) -> str:
    """The value as JSON text, its keys in the order they came."""
    return orjson.dumps(value).decode()
