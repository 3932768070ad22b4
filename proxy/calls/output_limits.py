"""Reads from a request how much it may generate; pure."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from proxy.catalog.entries import Route

#: Tokens that may be generated where neither the call nor the catalog says.
_UNTOLD: Final = 16_384
#: What a text completion generates at most where its call does not say.
#: Source: OpenAI API reference, create a completion (2026-11).
_COMPLETION: Final = 16
#: Choices of one call that are taken to be priced.
_CHOICES: Final = 128
#: The least output limit that Responses take. Source: their own error, "Expected a value >= 16"
#: (OpenAI, seen 2026-07).
_LEAST: Final = 16
_CHAT: Final = "chat/completions"
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
_LONG: Final = 64 * 1024
_NOTED: Final = re.compile(r"lowered \w+ to (\d+): the ceiling")


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """How much a request may generate.

    Attributes:
        each: Tokens of each choice, at most.
        choices: How many answers are generated.
        asked: What the request itself says of each; 0 where it says nothing.
        needs: The fewest that it can be limited to.
    """

    each: int
    choices: int = 1
    asked: int = 0
    needs: int = 1

    @property
    def total(self) -> int:
        """Tokens at most, all choices together."""
        return self.each * self.choices


class Fields(msgspec.Struct):
    """The members of a body that limit its output, whatever its endpoint."""

    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    n: Any = None
    best_of: Any = None
    thinking: Any = None


class _Once(msgspec.Struct):
    """A body that is read once; it is kept alive, so that its address stays its own."""

    body: bytes
    fields: Fields | None = None


_FIELDS: Final = msgspec.json.Decoder(Fields)
_at_hand: dict[int, _Once] = {}


@contextmanager
def at_hand(*bodies: bytes) -> Iterator[None]:
    """Whatever is asked of these very bodies meanwhile, each is read once."""
    taken = [id(body) for body in bodies if len(body) >= _LONG and id(body) not in _at_hand]
    _at_hand.update({id(body): _Once(body) for body in bodies if id(body) in taken})
    try:
        yield
    finally:
        for each in taken:
            _at_hand.pop(each, None)


def allowance(body: bytes, to: str, route: Route) -> Allowance:
    """How much a body may generate on a route; of two limits the larger counts.

    Args:
        body: As it is sent, or as the caller wrote it.
        to: Where it goes: the path below ``/v1/``.
        route: The route.
    """
    if to == "embeddings":
        return Allowance(each=0)
    fields = read_fields(body)
    asked = 0
    for name in LIMIT_FIELDS.get(to, ()):
        asked = max(asked, positive_count(getattr(fields, name)))
    if not asked and to == "completions":
        asked = _COMPLETION
    most = route.max_output or max(asked, _UNTOLD)
    choices = 1
    if fields.n is not None or fields.best_of is not None:
        choices = min(max(positive_count(fields.n), positive_count(fields.best_of), 1), _CHOICES)
    needs = _LEAST if to == "responses" else 1
    if fields.thinking is not None:
        needs = max(needs, _thinks(fields.thinking) + 1)
    each = min(asked or most, most)
    return Allowance(each=each, choices=choices, asked=asked, needs=needs)


def noted(notes: str) -> int | None:
    """The output limit that such a note in a receipt's notes tells of; None for no such note."""
    found = _NOTED.search(notes)
    return int(found[1]) if found else None


def read_fields(body: bytes) -> Fields:
    """The body's members that limit its output; none of a body that is no JSON object."""
    once = _at_hand.get(id(body))
    if once is None:
        return _fresh(body)
    if once.fields is None:
        once.fields = _fresh(body)
    return once.fields


def _fresh(body: bytes) -> Fields:
    try:
        return _FIELDS.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return Fields()


def _thinks(thinking: object) -> int:
    """The tokens that the model is told to think, which its output limit must be above."""
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled":
        return 0
    return positive_count(thinking.get("budget_tokens"))


def positive_count(value: object) -> int:
    """A number of tokens or choices; 0 where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
