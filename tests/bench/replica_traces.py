"""Calls for simulated replicas: recorded traces, and shapes made up to be unlike them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any, Final

import orjson

from tests.bench.replica_simulation import ReplicaCall, SimulatedSession

DATA: Final = Path(__file__).resolve().parents[2] / "../shared/data/B"
MOONCAKE: Final = "kvcache-ai+Mooncake/FAST25-release/traces/conversation_trace.jsonl"
CLAUDE: Final = "callanjfox+kv-cache-tester/traces"
#: Longer prompts do not fit the window of the simulated replicas.
_WINDOW: Final = 250_000
#: People who think for longer are counted as if they thought for so many seconds.
_MOST_THINKING_S: Final = 120.0
#: Calls of the traffic that has one system prompt.
_COMMON_CALLS: Final = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaWorkload:
    """Sessions of calls.

    Attributes:
        name: For the table.
        block: Tokens of a block.
        sessions: Each begins at its own time; its calls follow each other.
    """

    name: str
    block: int
    sessions: tuple[SimulatedSession, ...]

    def faster(self, times: float) -> "ReplicaWorkload":
        """The same with sessions that begin so many times as densely."""
        sessions = (replace(session, start=session.start / times) for session in self.sessions)
        return replace(self, sessions=tuple(sessions))


def mooncake(first: int = 0, calls: int = 6_000) -> ReplicaWorkload:
    """Mooncake's conversations: each call by itself; blocks of 512 tokens.

    Args:
        first: The first call of the trace.
        calls: Number of calls.
    """
    lines = (DATA / MOONCAKE).read_bytes().splitlines()[first : first + calls]
    rows = [orjson.loads(line) for line in lines]
    sessions = (
        SimulatedSession(
            start=(row["timestamp"] - rows[0]["timestamp"]) / 1000,
            calls=(
                ReplicaCall(
                    blocks=tuple(hash_id.to_bytes(8, "big") for hash_id in row["hash_ids"]),
                    tokens=row["input_length"],
                    output=row["output_length"],
                ),
            ),
        )
        for row in rows
    )
    by_start = sorted(sessions, key=lambda session: session.start)
    return ReplicaWorkload(name="Mooncake", block=512, sessions=tuple(by_start))


def claude_code(copies: int) -> ReplicaWorkload:
    """Claude Code's sessions, which begin at random within two hours; blocks of 64 tokens.

    Their hashes are local to each trace. Tools of the same length are taken for the same tools,
    which all sessions of these share. A copy shares no more than that with the original.
    """
    files = sorted((DATA / CLAUDE).glob("*.json"))
    if not files:
        raise FileNotFoundError(DATA / CLAUDE)
    traces = [orjson.loads(file.read_bytes()) for file in files]
    random = Random(1)  # noqa: S311 - the same traffic each time
    sessions = []
    for copy in range(copies):
        for trace in traces:
            calls = tuple(_coding_calls(trace, copy))
            if max(call.tokens for call in calls) <= _WINDOW:
                sessions.append(SimulatedSession(start=random.uniform(0, 7200), calls=calls))
    return ReplicaWorkload(name="Claude Code", block=64, sessions=tuple(sessions))


def _coding_calls(trace: dict[str, Any], copy: int) -> Iterator[ReplicaCall]:
    tools = int(trace["tool_tokens"])
    name = f"{trace['id']}#{copy}"
    for number, row in enumerate(row for row in trace["requests"] if row.get("hash_ids")):
        blocks = tuple(
            block_digest(f"tools {tools}", index)
            if index < tools // 64
            else block_digest(name, hash_id)
            for index, hash_id in enumerate(row["hash_ids"])
        )
        thinking = min(row.get("think_time") or 5.0, _MOST_THINKING_S) if number else 0.0
        yield ReplicaCall(
            blocks=blocks, tokens=row["in"], output=row["out"], pause=thinking, conversation=name
        )


def documents() -> ReplicaWorkload:
    """Made up: 400 documents of 8,000 to 60,000 tokens, some popular; single questions on them."""
    random = Random(2)  # noqa: S311 - the same traffic each time
    lengths = [random.randrange(16, 120) for _ in range(400)]
    weights = [1 / (rank + 1) for rank in range(400)]
    sessions = []
    for number in range(4_000):
        of = random.choices(range(400), weights)[0]
        blocks = (*(block_digest(f"document {of}", index) for index in range(lengths[of])),)
        own = block_digest(f"question {number}", 0)
        sessions.append(_single(random.uniform(0, 2_000), (*blocks, own), 150))
    return ReplicaWorkload(name="documents (made up)", block=512, sessions=tuple(sessions))


def tenants() -> ReplicaWorkload:
    """Made up: 150 tenants with a system prompt of 6,000 tokens each, and questions of 1,200.

    Source: the shape of llm-d's own benchmark, 150 tenants x 6k (2026-08).
    """
    random = Random(3)  # noqa: S311 - the same traffic each time
    sessions = []
    for number in range(8_000):
        tenant = f"tenant {random.randrange(150)}"
        own = f"question {number}"
        blocks = (
            *(block_digest(tenant, index) for index in range(12)),
            block_digest(own, 0),
            block_digest(own, 1),
        )
        sessions.append(_single(random.uniform(0, 1_000), blocks, 300))
    return ReplicaWorkload(name="tenants (made up)", block=512, sessions=tuple(sessions))


def common_prompt(turns: int = 1, rate: float = 30.0) -> ReplicaWorkload:
    """Made up: all calls begin with one system prompt of 4,096 tokens; 640 of their own follow.

    Args:
        turns: Calls of a conversation, 2 s between an answer and the next call.
        rate: Calls a second.
    """
    random = Random(4)  # noqa: S311 - the same traffic each time
    system = tuple(block_digest("system prompt", index) for index in range(64))
    sessions = []
    for number in range(_COMMON_CALLS // turns):
        calls = tuple(
            ReplicaCall(
                blocks=(
                    *system,
                    *(block_digest(f"question {number}", index) for index in range(10 * turn)),
                ),
                tokens=64 * (64 + 10 * turn),
                output=200,
                pause=2.0 if turn > 1 else 0.0,
                conversation=f"{number}" if turns > 1 else "",
            )
            for turn in range(1, turns + 1)
        )
        start = random.uniform(0, _COMMON_CALLS / rate)
        sessions.append(SimulatedSession(start=start, calls=calls))
    name = f"one system prompt, {turns} turn{'s' if turns > 1 else ''} (made up)"
    return ReplicaWorkload(name=name, block=64, sessions=tuple(sessions))


def agents() -> ReplicaWorkload:
    """Made up: 120 agents share 12,000 tokens of tools, one of 6 projects' 4,000, and grow."""
    random = Random(5)  # noqa: S311 - the same traffic each time
    tools = [block_digest("tools", index) for index in range(188)]
    sessions = []
    for number in range(120):
        project = f"project {random.randrange(6)}"
        blocks, calls = [*tools, *(block_digest(project, index) for index in range(62))], []
        for turn in range(random.randrange(10, 60)):
            grown = random.randrange(5, 40)
            blocks += [block_digest(f"agent {number}/{turn}", index) for index in range(grown)]
            calls.append(
                ReplicaCall(
                    blocks=tuple(blocks),
                    tokens=64 * len(blocks),
                    output=random.randrange(50, 400),
                    pause=random.uniform(0.5, 8.0) if turn else 0.0,
                    conversation=f"{number}",
                )
            )
        sessions.append(SimulatedSession(start=random.uniform(0, 600), calls=tuple(calls)))
    return ReplicaWorkload(
        name="agents, shared tools (made up)", block=64, sessions=tuple(sessions)
    )


def single_shots() -> ReplicaWorkload:
    """Made up: prompts of 500 to 6,000 tokens that share nothing."""
    random = Random(6)  # noqa: S311 - the same traffic each time
    sessions = []
    for number in range(4_000):
        blocks = tuple(
            block_digest(f"shot {number}", index) for index in range(random.randrange(8, 94))
        )
        call = ReplicaCall(blocks=blocks, tokens=64 * len(blocks), output=200)
        sessions.append(SimulatedSession(start=random.uniform(0, 250), calls=(call,)))
    return ReplicaWorkload(name="single shots (made up)", block=64, sessions=tuple(sessions))


def _single(start: float, blocks: tuple[bytes, ...], output: int) -> SimulatedSession:
    call = ReplicaCall(blocks=blocks, tokens=512 * len(blocks), output=output)
    return SimulatedSession(start=start, calls=(call,))


def block_digest(owner: str, number: int) -> bytes:
    return blake2b(f"{owner}/{number}".encode(), digest_size=8).digest()
