"""Reads from a request how much it may generate."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import ceil, isnan
from typing import Any, Final

import msgspec

from proxy.catalog.entries import Route
from proxy.providers.port import PreparedRequest
from proxy.records.request_fields import replace_fields

#: Tokens that may be generated where neither the call nor the catalog says.
_DEFAULT_MAX_OUTPUT_TOKENS: Final = 16_384
#: Most tokens of a text completion whose call names no limit.
#: Source: OpenAI API reference, create a completion (2026-11).
_DEFAULT_COMPLETION_TOKENS: Final = 16
#: Choices of one prompt that are taken to be priced. Source: OpenAI API reference, create a chat
#: completion, ``n`` (2026-11).
MAX_CHOICES: Final = 128
#: More tokens than any model generates in one answer; counts above it are taken for it.
MAX_OUTPUT_TOKENS: Final = 2**20
#: Characters of a number that is written as a text.
_MAX_NUMBER_CHARS: Final = 32
#: The least output limit that Responses take. Source: their own error, "Expected a value >= 16"
#: (OpenAI, seen 2026-07).
_MIN_RESPONSES_TOKENS: Final = 16
_CHAT: Final = "chat/completions"
#: Endpoints whose callers may ask for several answers.
_CHOICE_ENDPOINTS: Final = frozenset({_CHAT, "completions"})
#: Ends of the paths at Google's own API. Source: Google, Gemini API, GenerationConfig (2026-11).
_GEMINI_METHODS: Final = (":generateContent", ":streamGenerateContent")
#: The fields that limit the output, by where a request goes. OpenAI's newer models refuse
#: ``max_tokens`` in chat, and others (Mistral) refuse ``max_completion_tokens``.
#: Source: OpenAI and Anthropic API references (2026-11), Mistral's 422 (2026-04).
LIMIT_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    _CHAT: ("max_completion_tokens", "max_tokens"),
    "responses": ("max_output_tokens",),
    "completions": ("max_tokens",),
    "messages": ("max_tokens",),
}
#: Bodies from this size on are not read again while they are at hand: it takes 0.3 ms a megabyte.
_MIN_REMEMBERED_BYTES: Final = 64 * 1024
_ABSENT: Final = msgspec.Raw(b"")
#: Prompts that are told from one another, in 10 ms; beyond it each comma is taken to part two. A
#: text of so many commas is longer than windows are.
_MAX_COUNTED_PROMPTS: Final = 100_000
_LOWERED_NOTE: Final = re.compile(r"lowered \w+ to (\d+): the ceiling")


class OutputAllowance(msgspec.Struct, frozen=True, kw_only=True):
    """The output that a request may generate.

    Attributes:
        per_choice: Tokens of each choice, at most.
        choices: Number of answers generated, for all prompts together.
        requested: Tokens that the request itself asks for in each; 0 where it says nothing.
        minimum: The fewest that it can be limited to.
    """

    per_choice: int
    choices: int = 1
    requested: int = 0
    minimum: int = 1

    @property
    def total(self) -> int:
        """Tokens at most, all choices together."""
        return self.per_choice * self.choices


class OutputFields(msgspec.Struct):
    """The members of a body that limit its output, whatever its endpoint."""

    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    n: Any = None
    best_of: Any = None
    thinking: Any = None
    prompt: msgspec.Raw = _ABSENT
    generationConfig: Any = None  # noqa: N815 - Google's name


class _DecodedBody(msgspec.Struct):
    """A body that is read once; it is kept alive, so that its address stays its own."""

    body: bytes
    fields: OutputFields | None = None


_FIELDS: Final = msgspec.json.Decoder(OutputFields)
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PROMPTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_UNREADABLE: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_decoded_bodies: dict[int, _DecodedBody] = {}


@contextmanager
def decode_once(*bodies: bytes) -> Iterator[None]:
    """A block in which the bodies given are decoded only once."""
    fresh_ids = [
        id(body)
        for body in bodies
        if len(body) >= _MIN_REMEMBERED_BYTES and id(body) not in _decoded_bodies
    ]
    _decoded_bodies.update(
        {id(body): _DecodedBody(body) for body in bodies if id(body) in fresh_ids}
    )
    try:
        yield
    finally:
        for body_id in fresh_ids:
            _decoded_bodies.pop(body_id, None)


def output_allowance(body: bytes, endpoint: str, route: Route) -> OutputAllowance:
    """The output that a body may generate on a route; of two limits the larger counts.

    Args:
        body: As it is sent, or as the caller wrote it.
    """
    if endpoint == "embeddings":
        return OutputAllowance(per_choice=0)
    fields = read_fields(body)
    if endpoint.endswith(_GEMINI_METHODS):
        requested, choices = _gemini_limits(fields.generationConfig)
    else:
        limits = _limit_values(body, fields, limit_fields(endpoint, route))
        requested = max(map(positive_count, limits.values()), default=0)
        choices = _choices(fields, endpoint)
    if not requested and endpoint == "completions":
        requested = _DEFAULT_COMPLETION_TOKENS
    maximum = route.max_output or route.window or MAX_OUTPUT_TOKENS
    requested = min(requested, maximum)
    per_choice = requested or route.max_output or min(maximum, _DEFAULT_MAX_OUTPUT_TOKENS)
    needs = _MIN_RESPONSES_TOKENS if endpoint == "responses" else 1
    if fields.thinking is not None:
        needs = max(needs, min(_thinking_tokens(fields.thinking) + 1, per_choice))
    return OutputAllowance(
        per_choice=per_choice, choices=choices, requested=requested, minimum=needs
    )


def _choices(fields: OutputFields, endpoint: str) -> int:
    """Number of answers that a body asks for, those to each of its prompts together."""
    if endpoint not in _CHOICE_ENDPOINTS:
        return 1
    choices = 1
    if fields.n is not None or fields.best_of is not None:
        count = max(positive_count(fields.n), positive_count(fields.best_of), 1)
        choices = min(count, MAX_CHOICES)
    return choices * _prompt_count(fields.prompt) if endpoint == "completions" else choices


def _gemini_limits(config: object) -> tuple[int, int]:
    """The output limit that a ``generationConfig`` states, 0 for none, and its candidates."""
    if not isinstance(config, dict):
        return 0, 1
    candidates = positive_count(config.get("candidateCount")) or 1
    return positive_count(config.get("maxOutputTokens")), min(candidates, MAX_CHOICES)


def limit_fields(endpoint: str, route: Route) -> tuple[str, ...]:
    """The fields that may limit the output, also by the names that the upstream has for them."""
    names = LIMIT_FIELDS.get(endpoint, ())
    return tuple(dict.fromkeys([*names, *(_upstream_name(name, route) for name in names)]))


def _upstream_name(name: str, route: Route) -> str:
    """The name that the route's upstream has for a field, by its ``body_fields``."""
    declared = route.upstream.body_fields
    return name if declared is None else declared.rename.get(name, name)


def _limit_values(body: bytes, fields: OutputFields, names: Iterable[str]) -> dict[str, Any]:
    """The values of the limits that a body states, by name."""
    values = {name: getattr(fields, name, None) for name in names}
    if odd := values.keys() - set(OutputFields.__struct_fields__):
        members = _members(body)
        values |= {name: _readable_value(members[name]) for name in odd & members.keys()}
    return {name: value for name, value in values.items() if value is not None}


def lowered_limit(notes: str) -> int | None:
    """The lowered output limit by a receipt's notes; None without such a note."""
    match = _LOWERED_NOTE.search(notes)
    return int(match[1]) if match else None


def read_fields(body: bytes) -> OutputFields:
    """The body's members that limit its output; none of a body that is no JSON object."""
    once = _decoded_bodies.get(id(body))
    if once is None:
        return _decode(body)
    if once.fields is None:
        once.fields = _decode(body)
    return once.fields


def _decode(body: bytes) -> OutputFields:
    try:
        return _FIELDS.decode(body)
    except _UNREADABLE:
        return _decode_apart(body)


def _decode_apart(body: bytes) -> OutputFields:
    """The members that can be read, of a body with numbers that no decoder takes."""
    members = _members(body)
    names = members.keys() & set(OutputFields.__struct_fields__)
    read = {name: _readable_value(members[name]) for name in names - {"prompt"}}
    return OutputFields(**read, prompt=members.get("prompt", _ABSENT))


def _members(body: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _MEMBERS.decode(body)
    except _UNREADABLE:
        return {}


def _readable_value(raw: msgspec.Raw) -> object:
    """A member's value; of a number that no decoder takes, more than any limit."""
    try:
        return msgspec.json.decode(raw)
    except _UNREADABLE:
        return MAX_OUTPUT_TOKENS if bytes(raw)[:1].isdigit() else None


def _thinking_tokens(thinking: object) -> int:
    """The tokens that the model is told to think, which its output limit must be above."""
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled":
        return 0
    return positive_count(thinking.get("budget_tokens"))


def _prompt_count(raw: msgspec.Raw) -> int:
    """The prompts of a text completion, each of which is answered; a list of tokens is one.

    Source: OpenAI API reference, create a completion, ``prompt`` (2026-11).
    """
    text = bytes(raw).strip()
    inner = text[1:].lstrip() if text.startswith(b"[") else b""
    if not inner.startswith((b'"', b"[")):
        return 1
    count = text.count(b",") + 1
    try:
        return count if count > _MAX_COUNTED_PROMPTS else len(_PROMPTS.decode(text))
    except _UNREADABLE:
        return count


def positive_count(value: object) -> int:
    """A number of tokens or choices, rounded up, ``MAX_OUTPUT_TOKENS`` at most; 0 where it is none.

    Servers in Python (vLLM, SGLang) also take it as a decimal number or a text.
    """
    if isinstance(value, str) and len(value) <= _MAX_NUMBER_CHARS:
        try:
            value = float(value)
        except ValueError:
            return 0
    if type(value) is int or (isinstance(value, float) and not isnan(value)):  # no True, no False
        return ceil(min(max(value, 0), MAX_OUTPUT_TOKENS))
    return 0


def prepared_endpoint(prepared: PreparedRequest) -> str:
    """Endpoint of a request, such as ``messages``."""
    return prepared.endpoint or prepared.path.partition("?")[0].removeprefix("/")


def with_output_limit(prepared: PreparedRequest, route: Route, tokens: int) -> PreparedRequest:
    """The request with this output limit, of each choice; all else as it was.

    It stands in the field that the request uses already, else in the one its upstream knows.
    """
    endpoint = prepared_endpoint(prepared)
    names = limit_fields(endpoint, route)
    used = _limit_values(prepared.body, read_fields(prepared.body), names)
    limit = msgspec.json.encode(tokens)
    absent = _upstream_name(upstream_limit_field(LIMIT_FIELDS[endpoint], route), route)
    body = replace_fields(prepared.body, dict.fromkeys(used or [absent], limit))
    return msgspec.structs.replace(prepared, body=body)


def upstream_limit_field(names: tuple[str, ...], route: Route) -> str:
    """The field an upstream knows: OpenAI's own models know another than all the rest."""
    is_openai = route.upstream.provider == "openai" or route.regime.startswith("openai-")
    return names[0] if is_openai else names[-1]
