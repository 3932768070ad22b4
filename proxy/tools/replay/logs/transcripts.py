"""The calls of a coding agent's session, from what it wrote down: Claude Code's and Codex's files.

A transcript has each message once, so a call is all messages before an answer. It has neither the
agent's own instructions nor its tools: the first answer's usage says how long they were, and a text
of that length stands for them. Marks stand where the agent sets them.

Source: sessions of Claude Code 2.1 (``~/.claude/projects/*/*.jsonl``) and of Codex 0.169
(``~/.codex/sessions/**/rollout-*.jsonl``); neither form is published.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final, Protocol

import orjson

from proxy.errors import OperatorError
from proxy.tools.replay.logs.answers import content_message, output_message
from proxy.tools.replay.logs.bodies import request_body
from proxy.tools.replay.logs.fields import (
    Json,
    first_count,
    first_text,
    lookup,
    objects,
    seconds,
)
from proxy.tools.replay.recorded_call import RecordedCall

_CODEX: Final = frozenset(
    {"session_meta", "response_item", "turn_context", "event_msg", "compacted"}
)
#: First lines of Claude Code's files that name no session.
_CLAUDE_OPENINGS: Final = frozenset({"summary", "file-history-snapshot", "queue-operation"})
_FILLER: Final = "The agent's own text stands here; its transcript says only how long it is.\n"
_FILLER_TOKENS: Final = 16
_LETTERS_PER_TOKEN: Final = 4
_EPHEMERAL: Final = {"type": "ephemeral"}
_OUTPUT_TOKENS: Final = ("output_tokens",)
_PROMPT_TOKENS: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class SessionReader(Protocol):
    """Reads the lines of one session."""

    def feed(self, line: Json) -> Iterator[RecordedCall | OperatorError]:
        """The calls that this line completes."""
        ...

    def end(self) -> Iterator[RecordedCall | OperatorError]:
        """The call that was still open."""
        ...


def session_reader(line: Any) -> SessionReader | None:  # noqa: ANN401 - JSON
    """The reader of a file that has this line; None where it is no transcript."""
    if not isinstance(line, dict):
        return None
    kind = str(line.get("type"))
    if kind in _CODEX and "payload" in line:
        return _CodexSession()
    is_claude = "sessionId" in line and ("message" in line or "uuid" in line)
    return _ClaudeSessions() if is_claude or kind in _CLAUDE_OPENINGS else None


class _ClaudeSessions:
    """Claude Code's file: a main conversation, and those of agents that it started."""

    def __init__(self) -> None:
        self._threads: dict[str, _ClaudeThread] = {}
        self._fillers: dict[str, str] = {}

    def feed(self, line: Json) -> Iterator[RecordedCall | OperatorError]:
        agent = str(line.get("agentId") or line.get("isSidechain") or "")
        thread = self._threads.get(agent)
        if thread is None:
            thread = _ClaudeThread(f"{line.get('sessionId')}{agent}", self._fillers)
            self._threads[agent] = thread
        return thread.feed(line)

    def end(self) -> Iterator[RecordedCall | OperatorError]:
        return chain.from_iterable(thread.close() for thread in self._threads.values())


class _ClaudeThread:
    def __init__(self, conversation: str, fillers: dict[str, str]) -> None:
        self._conversation = conversation
        self._fillers = fillers
        self._messages: list[Json] = []
        self._answer: list[Any] = []
        self._last: Json = {}
        self._at: float | None = None

    def feed(self, line: Json) -> Iterator[RecordedCall | OperatorError]:
        if line.get("subtype") == "compact_boundary" or line.get("isCompactSummary"):
            yield from self.close()
            self._messages = []
        message = line.get("message")
        if not isinstance(message, dict):
            return
        if line.get("type") == "user":
            yield from self.close()
            self._add("user", message.get("content"))
            self._at = seconds(line.get("timestamp"))
        elif line.get("type") == "assistant" and message.get("model") != "<synthetic>":
            if message.get("id") != self._last.get("id"):
                yield from self.close()
            self._last = message  # its usage is the whole answer's
            content = message.get("content")
            self._answer += content if isinstance(content, list) else []

    def close(self) -> Iterator[RecordedCall | OperatorError]:
        """The call whose answer is complete."""
        last, answer = self._last, self._answer
        self._last, self._answer = {}, []
        if last and self._messages:
            model, usage = str(last.get("model") or ""), last.get("usage") or {}
            total = sum(first_count(usage, (name,)) or 0 for name in _PROMPT_TOKENS)
            filler = self._fillers.setdefault(model, _filler(total, self._messages))
            body = {
                "model": model,
                "max_tokens": 1024,
                "system": [{"type": "text", "text": filler, "cache_control": _EPHEMERAL}],
                "messages": [*self._messages[:-1], _with_mark(self._messages[-1])],
            }
            yield RecordedCall(
                at=self._at,
                conversation=self._conversation,
                feature="claude-code",
                body=orjson.dumps(body),
                reply=orjson.dumps(content_message(objects(answer))),
                generated=first_count(usage, _OUTPUT_TOKENS),
                is_native=True,
                models=(model,),
            )
        if answer:
            self._add("assistant", answer)

    def _add(self, role: str, content: Any) -> None:  # noqa: ANN401 - JSON
        """Add to the messages; neighbours of one role are one."""
        parts = content if isinstance(content, list) else [{"type": "text", "text": str(content)}]
        if self._messages and self._messages[-1]["role"] == role:
            parts = [*self._messages.pop()["content"], *parts]
        self._messages.append({"role": role, "content": parts})


class _CodexSession:
    """Codex's file: items that the model reads and writes, in turns."""

    def __init__(self) -> None:
        self._identity = self._instructions = self._model = ""
        self._filler: str | None = None
        self._items: list[Json] = []
        self._output: list[Json] = []
        self._at: float | None = None

    def feed(self, line: Json) -> Iterator[RecordedCall | OperatorError]:
        payload = line.get("payload")
        if not isinstance(payload, dict):
            return
        kind = line.get("type")
        if kind == "session_meta":
            self._identity = str(payload.get("id") or "")
            self._instructions = first_text(payload, ("base_instructions/text", "instructions"))
        elif kind == "turn_context":
            self._model = str(payload.get("model") or self._model)
        elif kind == "compacted":
            yield from self.end()
            self._items = _items(payload)
        elif kind == "event_msg" and payload.get("type") == "token_count":
            yield from self._close(lookup(payload, "info/last_token_usage"))
        elif kind == "response_item":
            yield from self._item(payload, seconds(line.get("timestamp")))

    def end(self) -> Iterator[RecordedCall | OperatorError]:
        return self._close({})

    def _item(self, item: Json, time: float | None) -> Iterator[RecordedCall | OperatorError]:
        kind = str(item.get("type"))
        if kind == "reasoning" or kind.endswith("_call") or item.get("role") == "assistant":
            self._output.append(item)
        elif kind == "message" or kind.endswith("_call_output"):
            yield from self.end()
            self._items.append(item)
            self._at = time

    def _close(self, usage: Any) -> Iterator[RecordedCall | OperatorError]:  # noqa: ANN401 - JSON
        output, self._output = self._output, []
        if not output:
            return
        usage, items = usage if isinstance(usage, dict) else {}, self._items
        self._items = [*items, *filter(_is_resent, output)]
        total = first_count(usage, ("input_tokens",))
        if self._filler is None and total:
            self._filler = _filler(total, [*items, {"instructions": self._instructions}])
        body = {
            "model": self._model,
            "instructions": (self._filler or "") + self._instructions,
            "input": list(items),
            "prompt_cache_key": self._identity,
        }
        try:
            request = request_body(body, "/responses")
        except OperatorError as why:
            yield why
            return
        yield RecordedCall(
            at=self._at,
            conversation=self._identity,
            feature="codex",
            body=request.body,
            reply=orjson.dumps(output_message(output)),
            generated=first_count(usage, _OUTPUT_TOKENS),
            models=(self._model,),
        )


def _items(payload: Json) -> list[Json]:
    if isinstance(payload.get("replacement_history"), list):
        return objects(payload["replacement_history"])
    text = {"type": "input_text", "text": str(payload.get("message") or "")}
    return [{"type": "message", "role": "user", "content": [text]}]


def _is_resent(item: Json) -> bool:
    """True for output that a later call holds in clear text."""
    return item.get("type") in ("message", "function_call", "custom_tool_call")


def _filler(total: int, messages: list[Json]) -> str:
    """Text as long as what a prompt of that many tokens held besides the messages."""
    tokens = total - len(orjson.dumps(messages)) // _LETTERS_PER_TOKEN
    return _FILLER * (max(0, tokens) // _FILLER_TOKENS)


def _with_mark(message: Json) -> Json:
    *parts, last = message["content"]
    if isinstance(last, dict) and last.get("type") not in ("thinking", "redacted_thinking"):
        last = {**last, "cache_control": _EPHEMERAL}
    return {**message, "content": [*parts, last]}
