"""Wire bodies as the tokens that a provider reads, in blocks; written apart from the simulator.

Token counts follow OpenAI's chat format: three tokens a message, its role and its text, and three
that prime the answer. On Anthropic's API what ends a message stands before the next one. What has
no text has no documented size: pictures and files have the simulator's.

Source: ``providers.md`` §1.1, §2.1, §2.4, §8 (2026-11); OpenAI, harmony format.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from compaction.reading.vocabulary import Tokenizer

Body = Mapping[str, Any]
Tokens = tuple[int, ...]
_START, _END, _TEXT = 200006, 200007, 200008
#: Ids of what has no text; no vocabulary has them.
_NO_TEXT: Final = 2**24
_TOKENIZER: Final = Tokenizer("o200k_base")


class WireBlock(NamedTuple):
    """One block of a prompt.

    Attributes:
        role: Role of its message; ``tools`` for a definition.
        kind: Type of the block.
        message: Number of its message.
        tokens: Its tokens.
        ttl: Lifetime that a mark on it asks for; "" for no mark.
    """

    role: str
    kind: str
    message: int
    tokens: Tokens
    ttl: str = ""


class WirePrompt(NamedTuple):
    """A prompt with what its cache entries depend on.

    Attributes:
        blocks: Its blocks, without the tokens that prime the answer.
        priming: Those tokens.
        scope: Parameters that have a cache of their own.
        key: Cache key; "" for none.
        explicit: True if only marked blocks are stored (OpenAI).
        ttl: Lifetime of the unmarked breakpoint (OpenAI).
        retention: Retention that the body asks for (OpenAI up to GPT-5.5); "" for none.
    """

    blocks: tuple[WireBlock, ...]
    priming: Tokens
    scope: str
    key: str = ""
    explicit: bool = False
    ttl: str = "30m"
    retention: str = ""

    @property
    def tokens(self) -> Tokens:
        """All tokens."""
        return (*(token for block in self.blocks for token in block.tokens), *self.priming)


@lru_cache(4096)
def text_tokens(text: str) -> Tokens:
    """Token ids of a text."""
    return tuple(_TOKENIZER.encode(text))


def as_json(value: object) -> str:
    """Compact JSON, its keys in the order they have."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def chat_prompt(body: Body) -> WirePrompt:
    """The prompt of a chat completions body."""
    messages = [("tools", [_text(as_json(tool)) for tool in body.get("tools") or ()])]
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        messages.append(("system", [_text(as_json(form["json_schema"]))]))
    messages = [message for message in messages if message[1]]
    for message in body["messages"]:
        role = "tool" if message["role"] == "function" else message["role"]
        parts = [*_chat_parts(message.get("content"))]
        if message.get("refusal"):
            parts.append(_text(message["refusal"]))
        for call in message.get("tool_calls") or ():
            inner = call[call.get("type", "function")]
            arguments = inner.get("arguments", inner.get("input", ""))
            parts.append(("tool_use", text_tokens(f"{inner['name']} {arguments}"), ""))
        messages.append((role, parts))
    return _openai_prompt(body, messages, [body.get("reasoning_effort"), body.get("verbosity")])


def responses_prompt(body: Body) -> WirePrompt:
    """The prompt of a Responses body: tools, form, instructions, then the items (§1.1)."""
    text, reasoning = body.get("text") or {}, body.get("reasoning") or {}
    messages = [("tools", [_text(as_json(tool)) for tool in body.get("tools") or ()])]
    if (text.get("format") or {}).get("type") == "json_schema":
        messages.append(("system", [_text(as_json(text["format"]))]))
    if body.get("instructions"):
        messages.append(("developer", [_text(body["instructions"])]))
    messages = [message for message in messages if message[1]]
    items = body["input"]
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    messages += [_item(item) for item in items]
    shaping = [reasoning.get("effort"), text.get("verbosity")]
    return _openai_prompt(body, messages, shaping)


def messages_prompt(body: Body) -> WirePrompt:
    """The prompt of an Anthropic Messages body."""
    tools = []
    for tool in body.get("tools") or ():
        bare = {name: value for name, value in tool.items() if name != "cache_control"}
        tools.append(("text", text_tokens(as_json(bare)), _lifetime(tool, "cache_control", "5m")))
    messages = [("tools", tools), ("system", [*_message_parts(body.get("system") or "")])]
    messages = [message for message in messages if any(part[1] for part in message[1])]
    head = len(messages)
    messages += [(one["role"], [*_message_parts(one["content"])]) for one in body["messages"]]
    if body.get("cache_control"):
        _mark_last(messages[-1][1], _lifetime(body, "cache_control", "5m"))
    output = body.get("output_config") or {}
    # A change of these loses the messages, but neither tools nor system.
    shaping = [body.get("tool_choice"), body.get("thinking")]
    first = (_NO_TEXT, *text_tokens(as_json(shaping))) if any(shaping) else ()
    blocks = [*_blocks(messages, ends_apart=True)]
    blocks = [
        block._replace(tokens=_opened_by(block.tokens, first))
        if block.message == head and first and _is_first(blocks, index)
        else block
        for index, block in enumerate(blocks)
    ]
    return WirePrompt(
        blocks=tuple(blocks),
        priming=(_END, _START, *text_tokens("assistant"), _TEXT),
        scope=as_json([body.get("model"), output.get("effort"), output.get("format")]),
    )


_Part = tuple[str, Tokens, str]


def _text(text: str, ttl: str = "") -> _Part:
    return ("text", text_tokens(text), ttl)


def _blocks(
    messages: Sequence[tuple[str, list[_Part]]], *, ends_apart: bool
) -> Iterator[WireBlock]:
    for number, (role, parts) in enumerate(messages):
        blocks = parts or [_text("")]
        last = len(blocks) - 1
        opening = (_START, *text_tokens(role), _TEXT)
        opening = (_END, *opening) if ends_apart and number else opening
        for index, (kind, tokens, ttl) in enumerate(blocks):
            before = opening if index == 0 else ()
            after = (_END,) if index == last and not ends_apart else ()
            yield WireBlock(role, kind, number, (*before, *tokens, *after), ttl)


def _openai_prompt(
    body: Body, messages: Sequence[tuple[str, list[_Part]]], shaping: Sequence[object]
) -> WirePrompt:
    options = body.get("prompt_cache_options") or {}
    return WirePrompt(
        blocks=tuple(_blocks(messages, ends_apart=False)),
        priming=(_START, *text_tokens("assistant"), _TEXT),
        scope=as_json([body.get("model"), body.get("parallel_tool_calls"), *shaping]),
        key=str(body.get("prompt_cache_key") or body.get("cache_salt") or ""),
        explicit=options.get("mode") == "explicit",
        ttl=options.get("ttl") or "30m",
        retention=str(body.get("prompt_cache_retention") or ""),
    )


def _item(item: Body) -> tuple[str, list[_Part]]:
    """An item of a Responses body as a message."""
    match item.get("type", "message"):
        case "message":
            return item["role"], [*_chat_parts(item["content"])]
        case "function_call":
            words = f"{item['name']} {item['arguments']}"
            return "assistant", [("tool_use", text_tokens(words), "")]
        case "function_call_output":
            return "tool", [*_chat_parts(item["output"])]
        case "additional_tools":
            return "tools", [_text(as_json(tool)) for tool in item["tools"]]
        case _:
            return "assistant", [_text(as_json(item))]


def _opened_by(tokens: Tokens, other: Tokens) -> Tokens:
    """The tokens with one that stands for other parameters in place of the message's start."""
    start = tokens.index(_START)
    stand_in = _NO_TEXT + hash(other) % _NO_TEXT
    return (*tokens[:start], stand_in, *tokens[start + 1 :])


def _is_first(blocks: Sequence[WireBlock], index: int) -> bool:
    return index == 0 or blocks[index - 1].message != blocks[index].message


def _lifetime(part: Body, name: str, usual: str) -> str:
    mark = part.get(name)
    return (mark.get("ttl") or usual) if isinstance(mark, dict) else ""


def _chat_parts(content: object) -> Iterator[_Part]:
    if isinstance(content, str):
        yield _text(content)
    for part in content if isinstance(content, list) else ():
        ttl = _lifetime(part, "prompt_cache_breakpoint", "30m")
        text = part.get("text", part.get("refusal"))
        yield _text(text, ttl) if isinstance(text, str) else _without_text(part, 765, ttl)


def _message_parts(content: object) -> Iterator[_Part]:
    if isinstance(content, str):
        yield _text(content)
    for block in content if isinstance(content, list) else ():
        kind, ttl = block["type"], _lifetime(block, "cache_control", "5m")
        if kind in ("text", "thinking"):
            yield (kind, text_tokens(block[kind]), ttl if kind == "text" else "")
        elif kind == "tool_use":
            yield (kind, text_tokens(f"{block['name']} {as_json(block['input'])}"), ttl)
        elif kind == "tool_result":
            inner = _message_parts(block.get("content", ""))
            yield (kind, tuple(token for part in inner for token in part[1]), ttl)
        else:
            yield _without_text(block, 1000, ttl)


def _without_text(part: Body, size: int, ttl: str) -> _Part:
    kind = part["type"]
    inner = part.get("source", part.get(kind, part))
    words = as_json(inner)
    if "image" not in kind:
        size = len(words) // 4 + 1
    elif '"detail":"low"' in words:
        size = 85
    first = _NO_TEXT + hash(words) % _NO_TEXT
    return (kind, tuple(range(first, first + size)), ttl)


def _mark_last(parts: list[_Part], ttl: str) -> None:
    for index in reversed(range(len(parts))):
        kind, tokens, own = parts[index]
        if kind != "thinking" and tokens:
            parts[index] = (kind, tokens, own or ttl)
            return
