"""The prompt that a route's cache sees of a chat body, rendered as in the simulator."""

import re
from itertools import chain
from typing import Final

import msgspec
import orjson

from proxy.caches.port import CachedPrompt
from proxy.calls.translation import translation
from proxy.calls.translation.converted_calls import convert_messages
from proxy.catalog.entries import Model, Route
from proxy.errors import CallerError, OperatorError, UpstreamError
from proxy.records.call import MESSAGES, Call, Key
from proxy.records.request_fields import parse_request_fields
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.simulator.apis import chat_bodies, messages_bodies
from proxy.tools.simulator.models import SimulatedModel, of_models
from proxy.tools.simulator.rendering import PromptRenderer, Vocabulary
from proxy.tools.simulator.replies import ReadingContext

#: A line, and those behind it that are blank or open with a slash: behind the line break of any
#: other, no piece of the vocabulary's pattern goes on, so texts cut there count the same.
#: Source: ``pat_str`` of o200k_base in tiktoken_ext/openai_public.py, 0.14.0.
_LINE: Final = re.compile(r"[^\n]*(?:\n(?=[^\S\n]*(?:[\n/]|\Z))[^\n]*)*(?:\n|\Z)")
#: Texts this short are remembered whole.
_SHORT: Final = 256


class LineVocabulary(Vocabulary):
    """The vocabulary, remembering lines; bounded by the tokens remembered."""

    def __init__(self) -> None:
        super().__init__(bound=2_000_000)

    def ids(self, text: str) -> tuple[int, ...]:
        """The text's token ids."""
        ids = super().ids
        if len(text) <= _SHORT and "\n" not in text:
            return ids(text)
        return tuple(chain.from_iterable(ids(piece) for piece in _LINE.findall(text) if piece))


_CHAT: Final = "chat/completions"
_KEY: Final = Key(id="", team="", team_name="")
#: One account upstream, as a gateway has.
_ACCOUNT: Final = "replay"
#: Characters of a reason.
_WORDS: Final = 200
#: Characters of a name in one.
_NAME: Final = 40
#: Blocks whose tokens a model generates.
_SPOKEN: Final = frozenset({"text", "tool_use"})
#: Exceptions from reading a part of the wrong shape.
_SHAPE_ERRORS: Final = (
    AttributeError, LookupError, RecursionError, UpstreamError, TypeError, ValueError,
)  # fmt: skip


class PromptReader:
    """Reads chat bodies as one route's upstream would.

    Attributes:
        public: The name callers use for the model.
    """

    def __init__(self, model: Model, route: Route, vocabulary: Vocabulary) -> None:
        self.route = route
        self.public = model.id
        self.vocabulary = vocabulary
        alone = Model(id=model.id, routes=(route,))
        self.simulated: SimulatedModel = of_models([alone])[route.model or model.id]
        self._context = ReadingContext(vocabulary, self.simulated, _ACCOUNT)

    def in_route_api(self, line: RecordedCall, now: float) -> RecordedCall:
        """The line in the API of the route's upstream: a Messages call becomes a chat call.

        Raises:
            OperatorError: If it cannot be said there.
        """
        if not line.is_native:
            return line
        try:
            translated = convert_messages(self._call(line.body, now, MESSAGES), self.route)
        except CallerError as error:
            raise OperatorError(str(error)[:_WORDS]) from None
        if translated is None:
            return line
        return msgspec.structs.replace(line, body=translated.call.body, is_native=False)

    def read_prompt(self, body: bytes, now: float, *, is_native: bool = False) -> CachedPrompt:
        """The prompt that a chat body makes, or one of a Messages call.

        Raises:
            OperatorError: If it cannot be said on the route's wire, or makes no prompt.
        """
        try:
            kind = self.route.upstream.kind
            call = self._call(body, now, MESSAGES if is_native else _CHAT)
            prepared = translation.prepare(call, self.route)
            document = orjson.loads(body if kind == "gemini" else prepared.body)
            if self.route.upstream.speaks_messages:
                document.setdefault("model", self.route.model)  # clouds have it in the path
                return messages_bodies.messages_prompt(document, self._context)
            return chat_bodies.chat_prompt(document, self._context)
        except (CallerError, UpstreamError) as error:
            raise OperatorError(str(error)[:_WORDS]) from None
        except _SHAPE_ERRORS as error:
            raise OperatorError(_shape_problem(error)) from None

    def generated_tokens(self, reply: bytes) -> tuple[int, ...]:
        """The tokens of an assistant's message as the next prompt holds it.

        What has no text counts as nothing; so does a message that cannot be read.
        """
        try:
            parts = chat_bodies.blocks(PromptRenderer(self.vocabulary), orjson.loads(reply))
        except _SHAPE_ERRORS:
            return ()
        return tuple(token for part in parts if part.kind in _SPOKEN for token in part.tokens)

    def _call(self, body: bytes, now: float, endpoint: str) -> Call:
        return Call(
            id="",
            key=_KEY,
            method="POST",
            endpoint=endpoint,
            headers={},
            body=body,
            fields=parse_request_fields(body),
            arrived=now,
        )


def _shape_problem(error: Exception) -> str:
    """The problem of a part that no API would take, as far as the error names it."""
    if isinstance(error, KeyError) and isinstance(error.args[0], str):
        named = error.args[0][:_NAME]
        return f"a message, a part of one or a tool is wrong at `{named}`"
    return "a message, a part of one or a tool has the wrong form"
