"""Conversations that agents had, in one form: rules, tools, and messages that only grow."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

FOLDER = Path(__file__).resolve().parents[2] / "../shared/data/A"
Message = dict[str, Any]
#: When a set holds no times: the moment its own texts speak of, or any.
_TAU_NOW = 1_715_803_200.0  # 2024-05-15 15:00 EST, as the recorded policy says
_ANY_NOW = 1_715_760_000.0


@dataclass(frozen=True, kw_only=True)
class RecordedDialogue:
    """One conversation.

    Attributes:
        name: Unlike any other of its set.
        feature: What the agent is for.
        user: For whom, as recorded.
        place: A directory, as recorded.
        began: When, in seconds since the epoch.
        rules: The system text.
        tools: Definitions of the tools it may call.
        messages: All but the system's; each of the assistant's answers a call.
        waits: Seconds from each call to the next; none where that was not recorded.
    """

    name: str
    feature: str
    user: str
    place: str
    rules: str
    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    began: float = _ANY_NOW
    waits: Sequence[float] = ()

    def calls(self) -> Iterator[tuple[Sequence[Message], Message]]:
        """Each of the assistant's answers, with the messages before it."""
        for index, message in enumerate(self.messages):
            if message["role"] == "assistant" and index:
                yield self.messages[:index], message

    def bodies(self, model: str = "any") -> Iterator[bytes]:
        """Each call built well: rules first, tools always in the same order, messages appended."""
        tools = {"tools": list(self.tools)} if self.tools else {}
        system = [{"role": "system", "content": self.rules}] if self.rules else []
        for before, _ in self.calls():
            yield orjson.dumps({"model": model, "messages": [*system, *before], **tools})


def tau(path: Path) -> Iterator[RecordedDialogue]:
    """τ-bench's airline agent, from one file of trajectories."""
    tools = _tools(path, "tau_bench_airline_tools.json")
    for number, run in enumerate(orjson.loads(path.read_bytes())):
        system, *messages = run["traj"]
        user = run["info"]["task"]["user_id"]
        yield RecordedDialogue(
            name=f"tau-{number}",
            feature="airline",
            user=user,
            place=f"/srv/airline/{user}",
            began=_TAU_NOW,
            rules=system["content"],
            tools=tools,
            messages=messages,
        )


def agentdojo(path: Path) -> Iterator[RecordedDialogue]:
    """AgentDojo's runs, one file each; its tool calls are put into OpenAI's form."""
    for file in sorted(path.rglob("*.json")):
        run = orjson.loads(file.read_bytes())
        if not run.get("messages"):
            continue
        system, *messages = run["messages"]
        name = file.relative_to(path).with_suffix("").as_posix()
        yield RecordedDialogue(
            name=name,
            feature=run["suite_name"],
            user=_user(system["content"]),
            place=f"/{name.rpartition('/')[0]}",
            rules=system["content"],
            tools=_tools(path, f"agentdojo_{run['suite_name']}_tools.json"),
            messages=[_dojo(message) for message in messages],
        )


def miniswe(path: Path) -> Iterator[RecordedDialogue]:
    """mini-swe-agent's sessions with the times they were recorded at.

    They were recorded as flat text: what each call adds is a user message here, the instructions
    that stand in every first call the system text. No user was recorded: the session stands for it.
    """
    for file in sorted(path.rglob("*.jsonl")):
        rows = [orjson.loads(line) for line in file.read_bytes().splitlines() if line.strip()]
        rows.sort(key=lambda row: row["timestamp"])
        task, opening, rules = rows[0]["input"].partition("<instructions>")
        messages = [{"role": "user", "content": task.strip()}]
        for row, after in zip(rows, [*rows[1:], None], strict=True):
            messages.append({"role": "assistant", "content": row["output"]})
            if after is not None:
                if not opening or not after["input"].startswith(row["input"]):
                    break
                added = after["input"][len(row["input"]) :].strip()
                messages.append({"role": "user", "content": added or "(no output)"})
        else:
            yield _session(rows, opening + rules, messages)


def _session(rows: list[dict[str, Any]], rules: str, messages: list[Message]) -> RecordedDialogue:
    times = [row["timestamp"] / 1e6 for row in rows]
    session = rows[0]["session_id"]
    return RecordedDialogue(
        name=session,
        feature="miniswe",
        user=f"agent-{session[:8]}",
        place=f"/testbed/{session[:12]}",
        began=times[0],
        rules=rules.strip(),
        messages=messages,
        waits=[after - before for before, after in pairwise(times)],
    )


#: Reads a set; the path is the one that is given for it on the command line.
KINDS: Mapping[str, Callable[[Path], Iterator[RecordedDialogue]]] = {
    "tau": tau,
    "agentdojo": agentdojo,
    "lmcache": miniswe,
}
#: Where each set lies.
PATHS: Mapping[str, Path] = {
    "tau": FOLDER / "sierra-research+tau-bench/historical_trajectories/gpt-4o-airline.json",
    "agentdojo": FOLDER / "sequrity-ai+agentdojo",
    "lmcache": FOLDER / "LMCache+lmcache-agent-trace/miniswe",
}


def _tools(path: Path, name: str) -> list[dict[str, Any]]:
    """The definitions that lie beside a set; none where they don't."""
    for folder in path.resolve().parents:
        if (folder / "derived" / name).exists():
            tools: list[dict[str, Any]] = orjson.loads((folder / "derived" / name).read_bytes())
            return tools
    return []


def _user(rules: str) -> str:
    """The user that AgentDojo's system text names."""
    name = rules.partition("user's name is ")[2].partition(",")[0]
    return name if 0 < len(name) < 60 else "unknown"


def _dojo(message: Message) -> Message:
    role, content = message["role"], message["content"]
    if role == "tool":
        result = {"role": role, "tool_call_id": message["tool_call_id"], "content": content}
        return (
            result if content or not message["error"] else {**result, "content": message["error"]}
        )
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {
                "name": call["function"],
                "arguments": orjson.dumps(call["args"]).decode(),
            },
        }
        for call in message.get("tool_calls") or ()
    ]
    return {"role": role, "content": content, **({"tool_calls": calls} if calls else {})}
