"""The calls of a coding agent's session, from what it wrote down: Claude Code's and Codex's files.

A transcript has each message once, so a call is all messages before an answer. It has neither the
agent's own instructions nor its tools: the first answer's usage says how long they were, and a text
of that length stands for them. Marks stand where the agent sets them.

Source: sessions of Claude Code 2.1 (``~/.claude/projects/*/*.jsonl``) and of Codex 0.169
(``~/.codex/sessions/**/rollout-*.jsonl``); neither form is published.
"""

from collections.abc import Iterator
from typing import Any, Final, Protocol

import orjson

from proxy.errors import OperatorError
from proxy.tools.replay.logs.answers import content_message, output_message
from proxy.tools.replay.logs.bodies import request_body
from proxy.tools.replay.logs.fields import Json, lookup, seconds
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
    if line.get("type") in _CODEX and "payload" in line:
        return _CodexSession()
    is_claude = "sessionId" in line and ("message" in line or "uuid" in line)
    return _ClaudeSessions() if is_claude or line.get("type") in _CLAUDE_OPENINGS else None


class _ClaudeSessions:
    """Claude Code's file: a main conversation, and those of agents that it started."""

    def __init__(self) -> None:
        self._threads: dict[str, _ClaudeThread] = {}
        self._fillers: dict[str, str] = {}

    def feed(self, line: Json) -> Iterator[RecordedCall | OperatorError]:
        name = str(line.get("agentId") or line.get("isSidechain") or "")
        session = str(line.get("sessionId"))
        thread = self._threads.get(name)
        if thread is None:
            thread = self._threads[name] = _ClaudeThread(f"{session}{name}", self._fillers)
        yield from thread.feed(line)

    def end(self) -> Iterator[RecordedCall | OperatorError]:
        for thread in self._threads.values():
            yield from thread.close()


class _ClaudeThread:
    def __init__(self, conversation: str, fillers: dict[str, str]) -> None:
        self._conversation = conversation
        self._fillers = fillers
        self._messages: list[Json] = []
        self._answer: list[Any] = []
        self._answer_id = ""
        self._last: Json = {}
        self._at: float | None = None

    def feed(self, line: Json) -> Iterator[RecordedCall | OperatorError]:
        message = line.get("message")
        if line.get("subtype") == "compact_boundary" or line.get("isCompactSummary"):
            yield from self.close()
            self._messages = []
        if not isinstance(message, dict):
            return
        if line.get("type") == "user":
            yield from self.close()
            self._add("user", message.get("content"))
            self._at = seconds(line.get("timestamp"))
        elif line.get("type") == "assistant" and message.get("model") != "<synthetic>":
            if message.get("id") != self._answer_id:
                yield from self.close()
                self._answer_id = str(message.get("id"))
            self._last = message  # its usage is the whole answer's
            content = message.get("content")
            self._answer += content if isinstance(content, list) else []

    def close(self) -> Iterator[RecordedCall | OperatorError]:
        """The call whose answer is complete."""
        last, answer = self._last, self._answer
        self._last, self._answer, self._answer_id = {}, [], ""
        if last and self._messages:
            usage = last.get("usage") or {}
            model = str(last.get("model") or "")
            counts = [usage.get(name) for name in _PROMPT_TOKENS]
            total = sum(count for count in counts if isinstance(count, int))
            filler = self._fillers.setdefault(model, _filler(total, self._messages))
            body = {
                "model": model,
                "max_tokens": 1024,
                "system": [{"type": "text", "text": filler, "cache_control": _EPHEMERAL}],
                "messages": [*self._messages[:-1], _with_mark(self._messages[-1])],
            }
            generated = usage.get("output_tokens")
            yield RecordedCall(
                at=self._at,
                conversation=self._conversation,
                feature="claude-code",
                body=orjson.dumps(body),
                reply=orjson.dumps(content_message(answer)),
                generated=generated if isinstance(generated, int) and generated else None,
                is_native=True,
                models=(model,),
            )
        if answer:
            self._add("assistant", answer)

    def _add(self, role: str, content: Any) -> None:  # noqa: ANN401 - JSON
        """Add to the messages; neighbours of one role are one."""
        parts = content if isinstance(content, list) else [{"type": "text", "text": str(content)}]
        if self._messages and self._messages[-1]["role"] == role:
            last = self._messages.pop()
            parts = [*last["content"], *parts]
        self._messages.append({"role": role, "content": parts})


class _CodexSession:
    """Codex's file: items that the model reads and writes, in turns."""

    def __init__(self) -> None:
        self._identity = ""
        self._instructions = ""
        self._filler: str | None = None
        self._model = ""
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
            text = lookup(payload, "base_instructions/text") or payload.get("instructions")
            self._instructions = text if isinstance(text, str) else ""
        elif kind == "turn_context":
            self._model = str(payload.get("model") or self._model)
        elif kind == "compacted":
            yield from self._close({})
            self._items = _items(payload)
        elif kind == "event_msg" and payload.get("type") == "token_count":
            usage = lookup(payload, "info/last_token_usage")
            yield from self._close(usage if isinstance(usage, dict) else {})
        elif kind == "response_item":
            yield from self._item(payload, seconds(line.get("timestamp")))

    def end(self) -> Iterator[RecordedCall | OperatorError]:
        yield from self._close({})

    def _item(self, item: Json, at: float | None) -> Iterator[RecordedCall | OperatorError]:
        kind = str(item.get("type"))
        if kind == "reasoning" or kind.endswith("_call") or item.get("role") == "assistant":
            self._output.append(item)
        elif kind == "message" or kind.endswith("_call_output"):
            yield from self._close({})
            self._items.append(item)
            self._at = at

    def _close(self, usage: Json) -> Iterator[RecordedCall | OperatorError]:
        """The call whose output is complete."""
        output, self._output = self._output, []
        if not output:
            return
        items = self._items
        self._items = [*items, *filter(_is_resent, output)]
        total = usage.get("input_tokens")
        if self._filler is None and isinstance(total, int):
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
        generated = usage.get("output_tokens")
        yield RecordedCall(
            at=self._at,
            conversation=self._identity,
            feature="codex",
            body=request.body,
            reply=orjson.dumps(output_message(output)),
            generated=generated if isinstance(generated, int) and generated else None,
            models=(self._model,),
        )


def _items(payload: Json) -> list[Json]:
    """The conversation that a compaction left."""
    items = payload.get("replacement_history")
    if isinstance(items, list):
        return [item for item in items if isinstance(item, dict)]
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
    """The message with a mark on its last part."""
    *parts, last = message["content"]
    if isinstance(last, dict) and last.get("type") not in ("thinking", "redacted_thinking"):
        last = {**last, "cache_control": _EPHEMERAL}
    return {**message, "content": [*parts, last]}
