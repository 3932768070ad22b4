"""The calls that the logs of ``tool_logs`` record, and the transcripts of agents that made them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import orjson

Json = dict[str, Any]

MODEL: Final = "gpt-5.4"
CLAUDE: Final = "claude-sonnet-5-5"
START: Final = 1_790_000_000.0
#: The tokens that each answer has by its usage.
OUTPUT: Final = 40
RULES: Final = "\n".join(
    f"Rule {n}: a parcel of zone {n} is sent on day {n % 7}, and costs {n * 3} crowns."
    for n in range(120)
)
TOOLS: Final[list[dict[str, Any]]] = [
    {
        "type": "function",
        "function": {
            "name": "find_parcel",
            "description": "Find a parcel by its number.",
            "parameters": {"type": "object", "properties": {"number": {"type": "string"}}},
        },
    }
]


@dataclass(frozen=True)
class LoggedCall:
    """One call of a support desk whose prompt begins with the time."""

    number: int

    @property
    def at(self) -> float:
        return START + 20.0 * self.number

    @property
    def iso(self) -> str:
        return datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"

    @property
    def system(self) -> str:
        return f"It is {self.iso}.\n{RULES}"

    @property
    def question(self) -> str:
        return f"Where is parcel {self.number * 7919}?"

    @property
    def answer(self) -> str:
        return f"Parcel {self.number * 7919} is in zone {self.number % 120}."

    @property
    def messages(self) -> list[Json]:
        return [
            {"role": "system", "content": self.system},
            {"role": "user", "content": self.question},
        ]

    @property
    def request(self) -> Json:
        return {"model": MODEL, "messages": self.messages, "tools": TOOLS}

    @property
    def response(self) -> Json:
        message = {"role": "assistant", "content": self.answer}
        return {
            "id": f"chatcmpl-{self.number}",
            "object": "chat.completion",
            "created": int(self.at),
            "model": f"{MODEL}-2026-03-05",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3000, "completion_tokens": OUTPUT, "total_tokens": 3040},
        }


def json_lines(rows: Iterator[Json]) -> bytes:
    return b"\n".join(map(orjson.dumps, rows)) + b"\n"


def logged_calls(count: int) -> Iterator[LoggedCall]:
    return map(LoggedCall, range(count))


def claude_code(count: int) -> bytes:
    """A session of Claude Code: a tool is used before each answer, blocks stand in lines."""
    rows: list[Json] = [{"type": "summary", "summary": "Parcels", "leafUuid": "u"}]
    shared = {"sessionId": "5e55", "isSidechain": False, "version": "2.1.197", "cwd": "/src"}
    for call in logged_calls(count):
        text = {"role": "user", "content": call.question + " Look it up." * 50}
        rows.append(
            {"type": "user", "uuid": f"u{call.number}", "timestamp": call.iso, "message": text}
            | shared
        )
        blocks: list[Json] = [
            {"type": "text", "text": call.answer},
            {"type": "tool_use", "id": f"toolu_{call.number}", "name": "Bash", "input": {"n": 1}},
        ]
        for number, block in enumerate(blocks):
            usage = {
                "input_tokens": 4,
                "cache_read_input_tokens": 0 if call.number == 0 else 20_000,
                "cache_creation_input_tokens": 20_000 if call.number == 0 else 300,
                "output_tokens": OUTPUT if number else 1,
            }
            message = {
                "id": f"msg_{call.number}",
                "type": "message",
                "role": "assistant",
                "model": CLAUDE,
                "content": [block],
                "usage": usage,
            }
            rows.append(
                {"type": "assistant", "uuid": f"a{call.number}{number}", "requestId": "req"}
                | {"timestamp": call.iso, "message": message}
                | shared
            )
        result = {"type": "tool_result", "tool_use_id": f"toolu_{call.number}", "content": "Found."}
        rows.append(
            {"type": "user", "uuid": f"r{call.number}", "timestamp": call.iso}
            | {"message": {"role": "user", "content": [result]}, "toolUseResult": "Found."}
            | shared
        )
    return json_lines(iter(rows))


def codex(count: int) -> bytes:
    """A rollout of Codex: a function is called before each answer."""

    def line(kind: str, payload: Json) -> Json:
        return {"timestamp": call.iso, "type": kind, "payload": payload}

    call = LoggedCall(0)
    meta = {"id": "019a", "cwd": "/src", "originator": "codex_exec", "cli_version": "0.169.0"}
    rows = [
        line("session_meta", meta | {"base_instructions": {"text": RULES}}),
        line("turn_context", {"cwd": "/src", "model": MODEL, "effort": "high"}),
    ]
    for call in logged_calls(count):
        content = [{"type": "input_text", "text": call.question}]
        rows += [
            line("response_item", {"type": "message", "role": "user", "content": content}),
            line("event_msg", {"type": "user_message", "message": call.question}),
            line("response_item", {"type": "reasoning", "summary": [], "encrypted_content": "gA"}),
            line(
                "response_item",
                {"type": "function_call", "name": "shell", "arguments": "{}"}
                | {"call_id": f"call_{call.number}"},
            ),
            line(
                "event_msg",
                {
                    "type": "token_count",
                    "info": {
                        "last_token_usage": {"input_tokens": 9_000, "output_tokens": OUTPUT},
                        "model_context_window": 272_000,
                    },
                },
            ),
            line(
                "response_item",
                {"type": "function_call_output", "output": "Found."}
                | {"call_id": f"call_{call.number}"},
            ),
        ]
    return json_lines(iter(rows))
