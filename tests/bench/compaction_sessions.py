"""Recorded sessions as compaction sees their cost: how long each prompt was, and when it was sent.

Texts do not matter here, only lengths: they come from the provider or the trace where these say
them, else from characters. A session is a run of calls each of which goes on from the one before:
where a client shortened its own conversation, another session begins.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import orjson

#: Characters of a token, where nobody counted.
_CHARACTERS: Final = 4
#: Seconds between calls where no times were recorded, and of an answer where that was not.
_STEP: Final = 4.0
_TOOK: Final = 2.0
#: Part of the longest prompt so far that the next must begin with to go on from it.
_GOES_ON: Final = 0.95
#: Tokens that a call of Claude Code adds, the mean of the traces.
_GROWTH: Final = 2_000

#: What stands for a compacted part, of its length: text that can be read again, prose of people,
#: records of tools.
REREADABLE: Final = 0.2
PROSE: Final = 0.85
RECORDS: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class SessionCall:
    """A call.

    Attributes:
        at: When it was made, in seconds from any moment.
        prompt: Tokens of its prompt.
        output: Tokens of its answer.
        took: Seconds until it was answered.
        trimmed: Tokens by which its prompt is shorter than it came.
        unseen: Whether it was made before the recording began: its prompt shows that it was, and
            a gate that decides from the prefix counts it, but it cost nothing here.
    """

    at: float
    prompt: int
    output: int
    took: float = _TOOK
    trimmed: int = 0
    unseen: bool = False


@dataclass(frozen=True, kw_only=True)
class PromptSession:
    """Calls of one conversation, each prompt a beginning of the next.

    Attributes:
        name: Its own within the set.
        fixed: Tokens in front that are never compacted.
        share: What stands for a compacted part, of its length.
        calls: In order.
    """

    name: str
    fixed: int
    share: float
    calls: tuple[SessionCall, ...]

    @property
    def calls_before_recording(self) -> int:
        """Calls before the recording began."""
        return sum(call.unseen for call in self.calls)

    def until(self, calls: int) -> "PromptSession":
        """The session as if it had ended after so many calls of the recording."""
        return replace(self, calls=self.calls[: self.calls_before_recording + calls])

    def trim(self, share: float) -> "PromptSession":
        """The session with this share of what each call adds left out when it is first sent."""
        out = [int((call.prompt - self.fixed) * share) for call in self.calls]
        calls = (
            replace(call, prompt=call.prompt - less, trimmed=less)
            for call, less in zip(self.calls, out, strict=True)
        )
        return replace(self, calls=tuple(calls))


def claude_code(data: Path) -> Iterator[PromptSession]:
    """Traces of Claude Code, subagents apart; lengths and times are the trace's.

    A trace that begins with a long prompt was under way: the calls before are put in, each adding
    the mean. A later session of the same trace may begin with the client's own summary, which
    is one message, so nothing is put before it.
    """
    for file in sorted((data / "B/callanjfox+kv-cache-tester/traces").glob("*.json")):
        trace = orjson.loads(file.read_bytes())
        subs = [agent for agent in trace["requests"] if agent.get("type") == "subagent"]
        for agent in (trace, *subs):
            requests = [call for call in agent["requests"] if "hash_ids" in call]
            name = f"{trace['id']}{agent.get('agent_id', '')}"
            fixed = int(agent.get("tool_tokens") or 0) + int(agent.get("system_tokens") or 0)
            for number, chain in enumerate(_chains(requests)):
                calls = [*map(_call_from_trace, chain)]
                before = [] if number else _calls_before(fixed, calls[0].prompt)
                yield _session(f"{name}.{number}", fixed, REREADABLE, [*before, *calls])


def pi_mono(data: Path) -> Iterator[PromptSession]:
    """pi's large session; lengths are what the provider counted."""
    for file in sorted((data / "A/badlogic+pi-mono").rglob("*.jsonl")):
        rows = [orjson.loads(line) for line in file.read_bytes().splitlines()]
        messages = [row["message"] for row in rows if row["type"] == "message"]
        calls = [
            _call_from_usage(message) for message in messages if message["role"] == "assistant"
        ]
        made = [call for call in calls if call.prompt]  # others broke off before they were counted
        yield _session(file.stem, made[0].prompt, REREADABLE, _monotonic_calls(made))


def mini_swe(data: Path) -> Iterator[PromptSession]:
    """mini-swe-agent's runs, each call with its recorded time."""
    for file in sorted((data / "A/LMCache+lmcache-agent-trace/miniswe").glob("*.jsonl")):
        rows = [orjson.loads(line) for line in file.read_bytes().splitlines()]
        rows.sort(key=lambda row: row["timestamp"])
        calls = [
            SessionCall(
                at=row["timestamp"] / 1e6,
                prompt=_tokens(row["input"]),
                output=_tokens(row["output"]),
            )
            for row in rows
        ]
        yield _session(file.stem, calls[0].prompt, REREADABLE, _monotonic_calls(calls))


def swe_agent(data: Path) -> Iterator[PromptSession]:
    """SWE-agent's trajectories; up to the task's end of the first message nothing is compacted."""
    for file in sorted((data / "A/SWE-agent+SWE-agent").rglob("*.traj")):
        calls = _calls_from_messages(orjson.loads(file.read_bytes())["history"])
        if calls:
            name = file.relative_to(data).as_posix()
            yield _session(name, calls[0].prompt, REREADABLE, calls)


def tau(data: Path) -> Iterator[PromptSession]:
    """tau-bench's airline conversations; the policy stands in front."""
    path = data / "A/sierra-research+tau-bench/historical_trajectories/gpt-4o-airline.json"
    for number, run in enumerate(orjson.loads(path.read_bytes())):
        fixed = _tokens(run["traj"][0]["content"])
        yield _session(f"airline-{number}", fixed, RECORDS, _calls_from_messages(run["traj"]))


def goodai(data: Path) -> Iterator[PromptSession]:
    """GoodAI's long memory benchmark: each log one chat, at its recorded times."""
    for file in sorted((data / "C/GoodAI+goodai-ltm-benchmark").rglob("master_log.jsonl")):
        rows = [orjson.loads(line) for line in file.read_bytes().splitlines()]
        spoken = [row for row in rows if "message" in row["data"]]
        length, calls = 0, list[SessionCall]()
        for before, row in pairwise(spoken):
            length += _tokens(before["data"]["message"])
            if row["type"] in {4, 5}:  # the agent's
                timestamp = before["timestamp"]
                answer = _tokens(row["data"]["message"])
                took = max(row["timestamp"] - timestamp, 0.0)
                calls.append(SessionCall(at=timestamp, prompt=length, output=answer, took=took))
        yield _session(file.parent.name, 0, PROSE, calls)


#: Reads a set; the path is the folder of all.
SETS: Final[Mapping[str, Callable[[Path], Iterator[PromptSession]]]] = {
    "Claude Code": claude_code,
    "pi-mono": pi_mono,
    "GoodAI": goodai,
    "mini-swe": mini_swe,
    "SWE-agent": swe_agent,
    "tau airline": tau,
}


def _session(name: str, fixed: int, share: float, calls: Iterable[SessionCall]) -> PromptSession:
    made = tuple(calls)
    return PromptSession(name=name, fixed=min(fixed, made[0].prompt), share=share, calls=made)


def _chains(requests: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The calls in runs that each go on from one another, whatever came between them."""
    chains: list[list[dict[str, Any]]] = []
    for call in requests:
        longest = max(chains, key=lambda chain: _common(chain[-1], call), default=None)
        held = len(longest[-1]["hash_ids"]) if longest else 0
        if (
            longest
            and _common(longest[-1], call) >= _GOES_ON * held
            and call["in"] >= longest[-1]["in"]
        ):
            longest.append(call)
        else:
            chains.append([call])
    return chains


def _common(one: dict[str, Any], other: dict[str, Any]) -> int:
    """Blocks that both begin with."""
    pairs = enumerate(zip(one["hash_ids"], other["hash_ids"], strict=False))
    shorter = min(len(one["hash_ids"]), len(other["hash_ids"]))
    return next((at for at, (left, right) in pairs if left != right), shorter)


def _call_from_trace(call: dict[str, Any]) -> SessionCall:
    took = float(call.get("api_time") or _TOOK)
    return SessionCall(at=call["t"], prompt=call["in"], output=call["out"], took=took)


def _calls_before(fixed: int, first: int) -> list[SessionCall]:
    """Calls that led up to a first prompt."""
    prompts = range(fixed + _GROWTH, first - _GROWTH, _GROWTH)
    return [SessionCall(at=0.0, prompt=prompt, output=0, unseen=True) for prompt in prompts]


def _call_from_usage(message: dict[str, Any]) -> SessionCall:
    usage = message["usage"]
    prompt = usage["input"] + usage["cacheRead"] + usage["cacheWrite"]
    return SessionCall(at=message["timestamp"] / 1e3, prompt=prompt, output=usage["output"])


def _calls_from_messages(messages: Sequence[dict[str, Any]]) -> list[SessionCall]:
    """A call for each answer among the messages; what precedes the first message asks nothing."""
    length, calls = 0, list[SessionCall]()
    for message in messages:
        tokens = _tokens(message.get("content")) + _tokens(message.get("tool_calls"))
        if message["role"] == "assistant" and length:
            calls.append(SessionCall(at=_STEP * len(calls), prompt=length, output=tokens))
        length += tokens
    return calls


def _monotonic_calls(calls: Iterable[SessionCall]) -> Iterator[SessionCall]:
    """The calls, none shorter than one before: providers do not always count alike."""
    longest = 0
    for call in calls:
        longest = max(longest, call.prompt)
        yield replace(call, prompt=longest)


def _tokens(content: object) -> int:
    if not content:
        return 0
    return len(content if isinstance(content, str) else orjson.dumps(content)) // _CHARACTERS + 4
