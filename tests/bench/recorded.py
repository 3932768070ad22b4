"""Replay lines of five recorded sets that hold agents' prompts, each in a form of its own.

What a set does not hold is not made up. ``t`` is recorded where the set has times, else calls
follow each other after 4 seconds.

swe-agent: Trajectories; each answer's prompt is the history before it, older observations left out
    where the run's own configuration says so. The definitions of tools were not recorded.
openhands: Prompts as they were sent, flattened to text; an earlier answer within one is known by
    its words. One run is one conversation, with the agents it delegates to.
openhands-sdk: Requests as they were sent.
gorilla: The first request of each of BFCL's multi-turn cases: its tools and the user's words. Later
    ones depend on answers that were not recorded.
pi-mono: A session; each answer's prompt is what was said before it. Its system text and tools were
    not recorded, nor are calls in it that broke off before the provider counted their prompt.

Usage: python -m tests.bench.recorded KIND PATH > FILE
PATH is the set's folder. With all of a set in the order of its calls, `head` takes less of it.
"""

import argparse
import json
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

Message = dict[str, Any]
#: Seconds between calls where no times were recorded.
_STEP: Final = 4.0


@dataclass(frozen=True, kw_only=True)
class ConversationCall:
    """One recorded call.

    Attributes:
        conversation: What it is a part of.
        feature: What for.
        body: What was asked.
        reply: The assistant's message; None where it was not recorded.
        at: When, in seconds from any moment; None where that was not recorded.
    """

    conversation: str
    feature: str
    body: Mapping[str, Any]
    reply: Message | None
    at: float | None = None


def swe_agent(path: Path) -> Iterator[ConversationCall]:
    """SWE-agent's trajectories; ``tool_call_ids`` and the like are put into the API's form."""
    for file in sorted(path.rglob("*.traj")):
        run = orjson.loads(file.read_bytes())
        retained = _observations_to_keep(run.get("replay_config"))
        for index, entry in enumerate(run["history"]):
            if entry["role"] == "assistant":
                before = _forgetful(run["history"][:index], retained)
                yield ConversationCall(
                    conversation=file.relative_to(path).as_posix(),
                    feature="swe-agent",
                    body=_body([_swe(message) for message in before]),
                    reply=_swe(entry),
                )


def openhands(path: Path) -> Iterator[ConversationCall]:
    """OpenHands' integration tests: prompts and answers of its agents, one folder a run."""
    for folder in sorted({file.parent for file in path.rglob("prompt_*.log")}):
        answers: list[str] = []
        for file in sorted(folder.glob("prompt_*.log")):
            answer = file.with_name(file.name.replace("prompt", "response"))
            answers.append(answer.read_text(encoding="utf8"))
            yield ConversationCall(
                conversation=folder.relative_to(path).as_posix(),
                feature=folder.parent.name,
                body=_body(_messages_of(file.read_text(encoding="utf8"), answers[:-1])),
                reply={"role": "assistant", "content": answers[-1]},
            )


def openhands_sdk(path: Path) -> Iterator[ConversationCall]:
    """The OpenHands SDK's logs of completions; metadata for the proxy it spoke to is left out."""
    logs = [
        (file.parent.name, orjson.loads(file.read_bytes())) for file in path.rglob("*-*.*.json")
    ]
    for folder, log in sorted(logs, key=lambda pair: pair[1]["timestamp"]):
        options = {name: value for name, value in log["kwargs"].items() if name != "extra_body"}
        reply = log["response"]["choices"][0]["message"]
        yield ConversationCall(
            conversation=folder,
            feature=folder,
            body=_body(log["messages"], **options),
            reply={name: reply[name] for name in ("role", "content", "tool_calls") if reply[name]},
            at=log["timestamp"] - log["latency_sec"],
        )


def gorilla(path: Path) -> Iterator[ConversationCall]:
    """BFCL's multi-turn cases, tools written as its harness writes them for function calling."""
    docs = {file.stem: _rows(file) for file in path.rglob("multi_turn_func_doc/*.json")}
    for file in sorted(path.rglob("data/BFCL_*_multi_turn_*.json")):
        for case in _rows(file):
            held = [name for names in case.get("missed_function", {}).values() for name in names]
            tools = [
                _tool(doc)
                for group in case["involved_classes"]
                for doc in docs[_DOCS[group]]
                if doc["name"] not in held
            ]
            yield ConversationCall(
                conversation=case["id"],
                feature=case["id"].rpartition("_")[0],
                body=_body(case["question"][0], tools=tools),
                reply=None,
            )


def pi_mono(path: Path) -> Iterator[ConversationCall]:
    """pi's sessions: what it sends on is all but thoughts and calls that were left unanswered."""
    for file in sorted(path.rglob("*.jsonl")):
        rows = _rows(file)
        messages = [row["message"] for row in rows if row["type"] == "message"]
        answered = {
            row_message["toolCallId"]
            for row_message in messages
            if row_message["role"] == "toolResult"
        }
        before: list[Message] = []
        for row_message in messages:
            message = _pi(row_message, answered)
            if row_message["role"] == "assistant" and _prompt_tokens(row_message["usage"]):
                yield ConversationCall(
                    conversation=rows[0]["id"],
                    feature="pi",
                    body=_body(before),
                    reply=message,
                    at=row_message["timestamp"] / 1e3,
                )
            if message["content"] or "tool_calls" in message:
                before = [*before, message]


#: Reads a set; the path is its folder.
KINDS: Final[Mapping[str, Callable[[Path], Iterator[ConversationCall]]]] = {
    "swe-agent": swe_agent,
    "openhands": openhands,
    "openhands-sdk": openhands_sdk,
    "gorilla": gorilla,
    "pi-mono": pi_mono,
}


def lines(calls: Iterable[ConversationCall]) -> Iterator[dict[str, Any]]:
    """The calls as ``thriftgate replay`` reads them, times from the first."""
    began: float | None = None
    for number, call in enumerate(calls):
        sent_at = number * _STEP if call.at is None else call.at
        began = sent_at if began is None else began
        yield {
            "t": round(sent_at - began, 3),
            "conversation": call.conversation,
            "key": "replay",
            "feature": call.feature,
            "body": call.body,
            "reply": call.reply,
        }


def main() -> None:
    """Write the lines to standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("path", type=Path)
    options = parser.parse_args()
    for line in lines(KINDS[options.kind](options.path)):
        sys.stdout.buffer.write(orjson.dumps(line) + b"\n")


def _body(messages: Sequence[Message], **options: Any) -> dict[str, Any]:
    return {"model": "any", "messages": messages, **options}


def _rows(file: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in file.read_bytes().splitlines() if line.strip()]


def _observations_to_keep(config: object) -> int | None:
    """Number of observations a SWE-agent configuration keeps; None for all."""
    if isinstance(config, dict):
        if config.get("type") == "last_n_observations":
            return int(config["n"])
        config = list(config.values())
    within = (
        (_observations_to_keep(processor) for processor in config)
        if isinstance(config, list)
        else ()
    )
    return next((found for found in within if found is not None), None)


def _forgetful(history: Sequence[Message], retained: int | None) -> Sequence[Message]:
    """The history without all but the first and the last observations, in SWE-agent's words."""
    if retained is None:
        return history
    seen = [index for index, entry in enumerate(history) if entry["role"] in {"user", "tool"}]
    old = seen[1 : max(0, len(seen) - retained)]
    return [_omit(entry) if index in old else entry for index, entry in enumerate(history)]


def _omit(entry: Message) -> Message:
    count = len(entry["content"].splitlines())
    return {**entry, "content": f"Old environment output: ({count} lines omitted)"}


def _swe(entry: Message) -> Message:
    message = {"role": entry["role"], "content": entry["content"]}
    if entry.get("tool_calls"):
        message["tool_calls"] = entry["tool_calls"]
    if entry["role"] == "tool":
        message["tool_call_id"] = entry["tool_call_ids"][0]
    return message


def _messages_of(text: str, answers: Sequence[str]) -> list[Message]:
    """The messages of a prompt: of several the first is the system's, of one it is the user's."""
    first, *rest = (part for part in text.split("\n\n----------\n\n") if part.strip())
    if not rest:
        return [{"role": "user", "content": first}]
    spoken = ["".join(answer.split()) for answer in answers if answer.strip()]
    return [
        {"role": "system", "content": first},
        *({"role": _speaker(part, spoken), "content": part} for part in rest),
    ]


def _speaker(part: str, spoken: Sequence[str]) -> str:
    words = "".join(part.split())
    return "assistant" if any(each in words for each in spoken) else "user"


_DOCS: Final = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "TwitterAPI": "posting_api",
    "VehicleControlAPI": "vehicle_control",
}
_TYPES: Final = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}


def _tool(doc: Mapping[str, Any]) -> dict[str, Any]:
    words = (
        f"{doc['description']} Note that the provided function is in Python 3 syntax."
        f" The response field has the following schema: {json.dumps(doc['response'])}"
    )
    function = {
        "name": doc["name"],
        "description": words,
        "parameters": _schema(doc["parameters"]),
    }
    return {"type": "function", "function": function}


def _schema(doc: Mapping[str, Any]) -> dict[str, Any]:
    """BFCL's description of a value as a JSON schema."""
    schema = {**doc, "type": _TYPES.get(doc["type"], doc["type"])}
    if doc["type"] == "float":
        schema["format"] = "float"
    if "items" in doc:
        schema["items"] = _schema(doc["items"])
    if "properties" in doc:
        schema["properties"] = {name: _schema(each) for name, each in doc["properties"].items()}
    return schema


def _prompt_tokens(usage: Mapping[str, int]) -> int:
    """Tokens of the prompt, as the provider counted them."""
    return usage["input"] + usage["cacheRead"] + usage["cacheWrite"]


def _pi(message: Message, answered: Container[str]) -> Message:
    text = "\n".join(block["text"] for block in message["content"] if block["type"] == "text")
    if message["role"] == "toolResult":
        return {"role": "tool", "tool_call_id": message["toolCallId"], "content": text}
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {
                "name": block["name"],
                "arguments": orjson.dumps(block["arguments"]).decode(),
            },
        }
        for block in message["content"]
        if block["type"] == "toolCall" and block["id"] in answered
    ]
    return {"role": message["role"], "content": text, **({"tool_calls": calls} if calls else {})}


if __name__ == "__main__":
    main()
