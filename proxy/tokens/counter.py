"""Counts a prompt's tokens, at the cost of its new part only.

Exact for text messages to gpt-3.5, gpt-4, gpt-4o and gpt-4.1, for completions and for embeddings.
Tools, tool calls and schemas are estimated within some per cent, images and files by a fixed
amount; models whose vocabulary is not published are counted with o200k and scaled by ``Ratios``.
"""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

import msgspec
import orjson

from compaction.reading.message import Count
from compaction.reading.message_tokens import MESSAGE_TOKENS
from compaction.reading.vocabulary import Tokenizer, Vocabulary, vocabulary
from proxy.tokens.declared import declaration
from proxy.tokens.weight import PRIMING, part_tokens

#: Tokens around a list of tools, less those that a system message saves beside it. Fitted likewise.
_TOOLS_TOKENS: Final = 6

#: Whose bodies are known; ``messages`` is Anthropic's.
_ENDPOINTS: Final = {"chat/completions", "completions", "embeddings", "messages", "responses"}
_NONE: Final = msgspec.Raw(b"null")


class _Prompt(msgspec.Struct):
    """The fields of a body that the model reads, still in JSON."""

    messages: list[msgspec.Raw] = []
    input: msgspec.Raw = _NONE
    prompt: msgspec.Raw = _NONE
    instructions: msgspec.Raw = _NONE
    system: msgspec.Raw = _NONE
    tools: msgspec.Raw = _NONE
    functions: msgspec.Raw = _NONE
    response_format: msgspec.Raw = _NONE
    text: msgspec.Raw = _NONE

    def parts(self) -> list[msgspec.Raw]:
        """The messages or items; a text is a user's message."""
        parts = [raw for raw in (self.system, self.instructions) if raw != _NONE]
        if bytes(self.input).lstrip().startswith(b"["):
            parts += _ITEMS.decode(self.input)
        elif self.input != _NONE:
            parts.append(msgspec.Raw(b'{"role":"user","content":' + bytes(self.input) + b"}"))
        return parts + self.messages


_PROMPT: Final = msgspec.json.Decoder(_Prompt)
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])


class TokenCounter:
    """Counts prompts and remembers what each message weighed.

    Counting holds the interpreter's lock for up to a millisecond at a time and may take long for a
    large new prompt, so it belongs on a worker thread; one thread at a time may use a counter.
    The first count with a vocabulary loads it.

    Args:
        entries: Most weights remembered; each takes about 150 bytes.
    """

    def __init__(self, entries: int = 65_536) -> None:
        self._entries = entries
        self._weights: OrderedDict[bytes, int] = OrderedDict()
        self._tokenizers: dict[Vocabulary, Tokenizer] = {}

    def prompt_tokens(self, body: bytes, endpoint: str, model: str) -> int:
        """Tokens of a request's prompt; a body of unknown shape weighs as much as its text.

        Args:
            endpoint: The path below ``/v1/``, such as ``chat/completions``.
            model: The upstream's name of the model.
        """
        name = vocabulary(model)
        if endpoint in _ENDPOINTS:
            try:
                return self._count_prompt(_PROMPT.decode(body), endpoint, name)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                pass  # The upstream will refuse it; until then it is as long as its text.
        return self._weigh(name, _body_text, body)

    def generated_tokens(self, text: str, model: str) -> int:
        """Tokens of a generated text."""
        return self._tokenizer(vocabulary(model)).count(text)

    def _count_prompt(self, body: _Prompt, endpoint: str, name: Vocabulary) -> int:
        if endpoint == "completions":
            return self._weigh(name, _text_or_ids, body.prompt)
        if endpoint == "embeddings":
            return self._weigh(name, _text_or_ids, body.input)
        weight = sum(self._weigh(name, _message, raw) for raw in body.parts())
        return PRIMING + weight + self._count_declarations(body, name)

    def _count_declarations(self, body: _Prompt, name: Vocabulary) -> int:
        """Tokens of tools and of the schema that the answer must follow."""
        declarations = (
            (body.tools, _tools),
            (body.functions, _tools),
            (body.response_format, _schema),
            (body.text, _schema),
        )
        return sum(self._weigh(name, kind, raw) for raw, kind in declarations if raw != _NONE)

    def _weigh(
        self, name: Vocabulary, kind: Callable[[bytes, Count], int], raw: bytes | msgspec.Raw
    ) -> int:
        """Tokens of a part of a body; remembered until the longest unused has to go."""
        salt, person = kind.__name__.encode(), name.encode()
        key = blake2b(raw, digest_size=16, salt=salt, person=person).digest()
        tokens = self._weights.get(key)
        if tokens is None:
            tokens = kind(bytes(raw), self._tokenizer(name).count)
            self._weights[key] = tokens
            if len(self._weights) > self._entries:
                self._weights.popitem(last=False)
        else:
            self._weights.move_to_end(key)
        return tokens

    def _tokenizer(self, name: Vocabulary) -> Tokenizer:
        if name not in self._tokenizers:
            self._tokenizers[name] = Tokenizer(name)
        return self._tokenizers[name]


def _message(raw: bytes, count: Count) -> int:
    return MESSAGE_TOKENS + part_tokens(_parse(raw), count)


def _tools(raw: bytes, count: Count) -> int:
    tools = _parse(raw)
    if not isinstance(tools, list) or not tools:
        return 0
    return _TOOLS_TOKENS + count(declaration(tools))


def _schema(raw: bytes, count: Count) -> int:
    """Tokens of the JSON schema in a ``response_format`` or a Responses ``text``, about."""
    document = _parse(raw)
    for name in ("format", "json_schema"):
        if isinstance(document, dict):
            document = document.get(name, document)
    schema = document.get("schema") if isinstance(document, dict) else None
    return count(orjson.dumps(schema).decode()) if isinstance(schema, dict) else 0


def _text_or_ids(raw: bytes, count: Count) -> int:
    """Tokens of a text, of a list of texts, or of token ids."""
    value = _parse(raw)
    several = value if isinstance(value, list) else [value]
    return sum(_item_tokens(item, count) for item in several)


def _item_tokens(item: object, count: Count) -> int:
    if isinstance(item, str):
        return count(item)
    return len(item) if isinstance(item, list) else int(isinstance(item, int))


def _body_text(raw: bytes, count: Count) -> int:
    """Tokens of the body's own text; 0 if it is none."""
    try:
        return count(raw.decode())
    except UnicodeDecodeError:
        return 0


def _parse(raw: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """The value; its text where it is not valid UTF-8."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return raw.decode(errors="replace")
