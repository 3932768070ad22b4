"""Replies of a simulated model, the same for the same prompt, and what a dialect makes of them."""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from random import Random
from typing import Any, Literal, NamedTuple

import msgspec
import orjson

from proxy.caches.port import CachedPrompt
from proxy.tools.simulator.bodies import Body
from proxy.tools.simulator.fault_directives import (
    FaultDirectives,
    decode_arguments,
    without_directives,
)
from proxy.tools.simulator.models import SimulatedModel, WireName
from proxy.tools.simulator.rendering import Vocabulary, call_text
from proxy.tools.simulator.samples import (
    letters,
    pieces,
    prose,
    refusal,
    sample,
    seeded_random,
)
from proxy.tools.simulator.streams import Json, StreamEvent
from slo.usage import Usage

Finish = Literal["stop", "sequence", "length", "tools", "refusal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyTool:
    """A tool the model may call."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyBeginning:
    """The beginning of an answer, which the model goes on from.

    Attributes:
        closing: As that of the request, without the beginning.
        tokens: Tokens of the prompt without it.
        echoes: True if the answer begins with it again.
    """

    text: str
    closing: str
    tokens: int
    echoes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyRequest:
    """The request of a body, the same for every API.

    Attributes:
        closing: The text of the closing user message; "" if there is none.
        usage_chunk: True if a stream is to end with its usage, where that is a choice.
        forced: Names of tools that must be called.
        schema: Schema of the text, {} for any JSON object; None for prose.
        reasoning: Number of tokens of reasoning that it pays for.
        shows_reasoning: True if the reasoning is part of the answer.
        seals_reasoning: True if an answer carries its reasoning in a form only we can read.
        names_phase: True if an answer's message says whether it is comment or the answer.
        echoes: Members of the body that the answer object repeats.
        beginning: Beginning of the answer; None for a new one.
    """

    model: str
    prompt: CachedPrompt
    closing: str
    max_tokens: int
    stream: bool = False
    usage_chunk: bool = False
    tools: Sequence[ReplyTool] = ()
    forced: Sequence[str] = ()
    schema: Mapping[str, Any] | None = None
    reasoning: int = 0
    shows_reasoning: bool = False
    seals_reasoning: bool = False
    names_phase: bool = False
    stops: Sequence[str] = ()
    n: int = 1
    echoes: Mapping[str, Any] | None = None
    beginning: ReplyBeginning | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedCall:
    """One tool call; its arguments are JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """One answer.

    Attributes:
        tokens: Generated tokens, without the reasoning.
        letters: Seed of the runs of letters in which a stream has the text; None for words.
    """

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    finish: Finish = "stop"
    stop: str = ""
    tokens: tuple[int, ...] = ()
    reasoning: int = 0
    thinking: str = ""
    letters: int | None = None

    def text_pieces(self) -> Iterator[tuple[str, int]]:
        """The text in runs of a few words, each with its share of the tokens, one at least."""
        runs = pieces(self.text) if self.letters is None else letters(self.text, self.letters)
        yield from _token_shares(runs, len(self.tokens))

    def thinking_pieces(self) -> Iterator[tuple[str, int]]:
        """The same of the reasoning's text."""
        yield from _token_shares(pieces(self.thinking), self.reasoning)


def _token_shares(runs: list[str], tokens: int) -> Iterator[tuple[str, int]]:
    return ((run, max(1, tokens // len(runs))) for run in runs)


def reply(
    request: ReplyRequest, cues: FaultDirectives, vocabulary: Vocabulary, words: int, index: int = 0
) -> ModelReply:
    """The answer to a prompt; ``index`` tells the answers of one call apart."""
    seed = _seed(request, index)
    thrown = seeded_random(seed)
    reasoning = min(request.reasoning, request.max_tokens)
    thinking = ""
    if request.shows_reasoning and reasoning:
        thinking = vocabulary.truncate_text(prose(thrown, "", reasoning), reasoning)
        reasoning = len(vocabulary.ids(thinking))
    left = request.max_tokens - reasoning
    names = request.forced or _directed_tools(request, cues)
    if names and "refuse" not in cues:
        arguments = [decode_arguments(cue) for cue in cues.values("args") if cue]
        answer = _tool_call_reply(request, names, arguments, seed, vocabulary)
    else:
        answer = _text_reply(_text(request, cues, thrown, words), request, cues, vocabulary)
    if "letters" in cues:
        answer = replace(answer, letters=int(cues.number("letters", 0)))
    return _limit_answer(answer, left, reasoning, thinking, vocabulary)


def signature(thinking: str) -> str:
    """The signature of a thinking block; it changes with every character of it."""
    return b64encode(
        b"sim-simulated" + blake2b(thinking.encode(), digest_size=24).digest()
    ).decode()


def _seed(request: ReplyRequest, index: int) -> int:
    """The seed of an answer; one that goes on is seeded as the one that it goes on from."""
    closing, tokens = request.closing, request.prompt.tokens
    if request.beginning is not None:
        closing, tokens = request.beginning.closing, request.beginning.tokens
    seed = f"{closing}\n{tokens}\n{index}".encode()
    return int.from_bytes(blake2b(seed, digest_size=8).digest())


def _directed_tools(request: ReplyRequest, cues: FaultDirectives) -> Sequence[str]:
    """The tools a script wants called; a call without a name means the first."""
    if not request.tools:
        return ()
    offered = {tool.name for tool in request.tools}
    directed = [name for name in cues.values("offered-call") if name in offered]
    return [*(name or request.tools[0].name for name in cues.values("call")), *directed]


def _tool_call_reply(
    request: ReplyRequest,
    names: Sequence[str],
    given_arguments: Sequence[str],
    seed: int,
    vocabulary: Vocabulary,
) -> ModelReply:
    """Calls of these tools, with the given arguments or, beyond those, ones by their schemas."""
    schemas = {tool.name: tool.schema for tool in request.tools}
    calls = []
    for index, name in enumerate(names):
        schema = schemas.get(name, {})
        sampled = sample(schema, seeded_random(seed + index)) if schema.get("properties") else {}
        arguments = (
            given_arguments[index]
            if index < len(given_arguments)
            else orjson.dumps(sampled).decode()
        )
        called = ScriptedCall(
            id=f"{seed % 2**40:010x}{index:02d}",
            name=name,
            arguments=arguments,
        )
        calls.append(called)
    text = "".join(call_text(call.name, call.arguments) for call in calls)
    return ModelReply(calls=tuple(calls), finish="tools", tokens=vocabulary.ids(text))


def _text(request: ReplyRequest, cues: FaultDirectives, thrown: Random, words: int) -> str:
    if "refuse" in cues:
        return refusal()
    if request.schema is not None:
        return orjson.dumps(sample(request.schema, thrown)).decode()
    length = int(cues.number("words", words * (0.5 + thrown.random())))
    begun = request.beginning
    closing = request.closing if begun is None else begun.closing
    text = prose(thrown, without_directives(closing), length)
    return text if begun is None else _rest(text, begun)


def _rest(text: str, begun: ReplyBeginning) -> str:
    """The rest of an answer that begins so; of another model's, as many words as are left."""
    before = begun.text if begun.echoes else ""
    if text.startswith(begun.text):
        return before + text.removeprefix(begun.text)
    words = text.split()[len(begun.text.split()) :]
    return before + "".join(f" {word}" for word in words)


def _text_reply(
    text: str, request: ReplyRequest, cues: FaultDirectives, vocabulary: Vocabulary
) -> ModelReply:
    met = [(text.find(stop), stop) for stop in request.stops if stop and stop in text]
    finish: Finish = "refusal" if "refuse" in cues else "stop"
    stop = ""
    if met:
        index, stop = min(met)
        text, finish = text[:index], "sequence"
    return ModelReply(text=text, finish=finish, stop=stop, tokens=vocabulary.ids(text))


def _limit_answer(
    answer: ModelReply, left: int, reasoning: int, thinking: str, vocabulary: Vocabulary
) -> ModelReply:
    """The answer within its bound; tool calls that do not fit are left out."""
    if len(answer.tokens) > left:
        text = vocabulary.truncate_text(answer.text, left)
        answer = ModelReply(text=text, tokens=vocabulary.ids(text), finish="length")
    return replace(answer, reasoning=reasoning, thinking=thinking)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReply:
    """A scripted answer.

    Attributes:
        id: A number of its own; each wire adds its prefix.
        created: Seconds since the epoch.
    """

    id: str
    created: int
    model: SimulatedModel
    request: ReplyRequest
    replies: Sequence[ModelReply]
    usage: Usage

    @property
    def midway_usage(self) -> Usage:
        """The usage told while the answer is being written."""
        return msgspec.structs.replace(self.usage, output=self.usage.output // 2)


class ReadingContext(NamedTuple):
    """The context for reading a body."""

    vocabulary: Vocabulary
    model: SimulatedModel
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointDialect:
    """The dialect of one generating endpoint.

    Attributes:
        opening: Number of events that open a stream at once, long before its content.
        midway: An event that tells usage before the end, as some servers do.
    """

    wire: WireName
    read_request: Callable[[Body, ReadingContext], ReplyRequest]
    answer: Callable[[ScriptedReply], Json]
    events: Callable[[ScriptedReply], Sequence[StreamEvent]]
    midway: Callable[[ScriptedReply], StreamEvent]
    opening: int
