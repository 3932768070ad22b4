"""Random bodies of each API, made of few texts, so that several begin alike."""

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from tests.accounting.wire import text_tokens

Body = dict[str, Any]
#: Words of a text: around steps of 64 and 128, the least of a cache, an interval of 2,048.
_WORDS: Final = (1, 60, 130, 500, 900, 2_100)
_TEXTS: Final = 9
#: Seconds from one call to the next: within an answer, and around each lifetime.
_GAPS: Final = (0.0, 0.2, 3.0, 59.0, 239.0, 241.0, 299.0, 301.0, 1_799.0, 1_801.0, 3_601.0)
_MAX_GROWTH: Final = 22


class RandomStream:
    """Calls of a few conversations in one API, from one seed.

    Args:
        seed: Decides all.
        api: ``chat``, ``responses`` or ``messages``.
        lifetimes: Lifetimes that marks may ask for; () where marks are refused.
    """

    def __init__(self, seed: int, api: str, lifetimes: tuple[str, ...]) -> None:
        self._dice = Random(f"{seed} {api} {lifetimes}")  # noqa: S311 - no secret
        self._api = api
        self._lifetimes = lifetimes

    def calls(self, count: int) -> Iterator[tuple[float, Body, tuple[int, ...]]]:
        """The time that each is sent at, its body, and its answer's tokens."""
        dice, now, bodies = self._dice, 1_000.0, [self._opening()]
        for _ in range(count):
            now += dice.choice(_GAPS if dice.random() < 0.5 else _GAPS[:4])
            if dice.random() < 0.3:
                bodies.append(self._opening())
            body = dice.choice(bodies)
            answer = self._text()
            bodies.append(self._next_body(body, answer))
            yield now, self._with_marks(body), text_tokens(answer)

    def _opening(self) -> Body:
        """A conversation's first call."""
        dice, is_messages = self._dice, self._api == "messages"
        body: Body = {"model": "m", "max_tokens": 9} if is_messages else {"model": "m"}
        names = dice.sample(range(3), dice.choice((0, 0, 1, 3)))
        tools = [{"name": f"f{n}", "description": self._text(n)} for n in names]
        if tools and self._api == "chat":
            body["tools"] = [{"type": "function", "function": tool} for tool in tools]
        elif tools:
            body["tools"] = tools
        system = [self._text() for _ in range(dice.choice((0, 1, 1, 2)))]
        messages = [{"role": "user", "content": self._blocks("text", dice.choice((1, 1, 2)))}]
        if is_messages:
            body |= {"system": [{"type": "text", "text": text} for text in system]}
            body |= dice.choice(({}, {}, {"tool_choice": {"type": "auto"}}))
        elif self._api == "responses":
            body |= {"instructions": system[0]} if system else {}
        else:
            roles = dice.sample(("system", "developer"), len(system))
            messages[:0] = [{"role": r, "content": t} for r, t in zip(roles, system, strict=True)]
        if not is_messages:
            body |= (
                {"prompt_cache_key": key} if (key := dice.choice(("a", "a", "a", "b", ""))) else {}
            )
            body |= dice.choice(({}, {}, {}, {"parallel_tool_calls": False}))
            body |= dice.choice(
                ({}, {}, *({"prompt_cache_retention": name} for name in ("in_memory", "24h")))
            )
        return body | {"input" if self._api == "responses" else "messages": messages}

    def _next_body(self, body: Body, answer: str) -> Body:
        """The next call of a conversation: the answer, and a question or results of tools."""
        field = "input" if self._api == "responses" else "messages"
        count = self._dice.choice((0, 0, 1, 3, _MAX_GROWTH))
        more = self._tool_turns(answer, count) if count else self._turns(answer)
        return body | {field: [*body[field], *more]}

    def _turns(self, answer: str) -> list[Body]:
        question = self._blocks("text", self._dice.choice((1, 1, 2)))
        if self._dice.random() < 0.1:
            question = [question[0]] * _MAX_GROWTH
        return [
            {"role": "assistant", "content": answer},
            {"role": "user", "content": question},
        ]

    def _tool_turns(self, answer: str, count: int) -> list[Body]:
        ids = [f"c{self._dice.randrange(10**6)}" for _ in range(count)]
        results = [self._text(self._dice.randrange(2)) for _ in ids]
        pairs = list(zip(ids, results, strict=True))
        if self._api == "messages":
            calls = [{"type": "tool_use", "id": one, "name": "f", "input": {}} for one in ids]
            tool_results = [
                {"type": "tool_result", "tool_use_id": one, "content": text} for one, text in pairs
            ]
            texts = [{"type": "text", "text": answer}]
            return [
                {"role": "assistant", "content": [*texts, *calls]},
                {"role": "user", "content": tool_results},
            ]
        if self._api == "responses":
            return [
                {"role": "assistant", "content": answer},
                *(
                    {"type": "function_call", "call_id": one, "name": "f", "arguments": "{}"}
                    for one in ids
                ),
                *(
                    {"type": "function_call_output", "call_id": one, "output": text}
                    for one, text in pairs
                ),
            ]
        inner = {"name": "f", "arguments": "{}"}
        calls = [{"id": one, "type": "function", "function": inner} for one in ids]
        return [
            {"role": "assistant", "content": answer, "tool_calls": calls},
            *({"role": "tool", "tool_call_id": one, "content": text} for one, text in pairs),
        ]

    def _with_marks(self, body: Body) -> Body:
        """The body with marks where the API takes some; now and then more than it does."""
        if not self._lifetimes:
            return body
        dice, is_messages = self._dice, self._api == "messages"
        name = "cache_control" if is_messages else "prompt_cache_breakpoint"
        share = dice.choice((0.0, 0.1, 0.4))
        roles = ("user", "assistant") if is_messages else ("user", "tool", "system", "developer")

        def with_mark(part: Body) -> Body:
            if dice.random() >= share:
                return part
            return part | {name: {"type": "ephemeral", "ttl": dice.choice(self._lifetimes)}}

        def with_marks(message: Body) -> Body:
            content = message.get("content")
            if message.get("role") not in roles or content is None:
                return message
            if isinstance(content, str):
                kind = "input_text" if self._api == "responses" else "text"
                content = [{"type": kind, "text": content}]
            return message | {"content": [with_mark(part) for part in content]}

        field = "input" if self._api == "responses" else "messages"
        body = body | {field: [with_marks(message) for message in body[field]]}
        if not is_messages:
            return body | dice.choice(({}, {}, {"prompt_cache_options": {"mode": "explicit"}}))
        body |= {"system": [with_mark(part) for part in body["system"]]}
        return body | dice.choice(({}, {}, {"cache_control": {"type": "ephemeral"}}))

    def _blocks(self, kind: str, count: int) -> list[Body]:
        kind = f"input_{kind}" if self._api == "responses" else kind
        return [{"type": kind, "text": self._text()} for _ in range(count)]

    def _text(self, number: int | None = None) -> str:
        number = self._dice.randrange(_TEXTS) if number is None else number
        return f"t{number}" + " rule" * _WORDS[number % len(_WORDS)]
