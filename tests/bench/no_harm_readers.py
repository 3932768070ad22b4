"""Reads recorded sets as sessions of calls.

Recorded calls keep their words, their order within a conversation and their answers; when they are
made is laid out anew for each rate. Sets without words (Mooncake, Claude Code's traces) hold hashes
of blocks; each block is rendered as made-up text, the same for the same hash.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import orjson
import yaml

from tests.bench.badly_built import with_good_order
from tests.bench.compaction.dialogues import goodai
from tests.bench.recorded import KINDS as RECORDED
from tests.fakes import badly_built as bad
from tests.fakes.dialogue import words
from tests.fakes.handbook import section
from tests.fakes.messages import said
from tests.fakes.recorded import KINDS as CONVERSATIONS
from tests.fakes.workloads import Json, Session, SessionTurn


def sessions(rows: Iterable[Mapping[str, Any]]) -> Iterator[Session]:
    """Replay lines as sessions, in the order in which they begin."""
    turns_by_session: dict[str, list[SessionTurn]] = {}
    features: dict[str, str] = {}
    for row in rows:
        name = str(row["conversation"])
        body = {field: each for field, each in row["body"].items() if field != "stream"}
        turns_by_session.setdefault(name, []).append(SessionTurn(body=body, reply=row.get("reply")))
        features.setdefault(name, row["feature"])
    for name, turns in turns_by_session.items():
        yield Session(name=name, feature=features[name], turns=tuple(turns))


def conversations(kind: str) -> Callable[[Path], Iterator[Session]]:
    """A set whose conversations only grow, built as its agent built them."""

    def read(path: Path) -> Iterator[Session]:
        for one in CONVERSATIONS[kind](path):
            pairs = zip(one.bodies(), one.calls(), strict=True)
            turns = tuple(
                SessionTurn(body=orjson.loads(body), reply=reply) for body, (_, reply) in pairs
            )
            yield Session(name=one.name, feature=one.feature, turns=turns)

    return read


def badly_built(kind: str, *, mend: bool = False) -> Callable[[Path], Iterator[Session]]:
    """The same with what changes in front, or at the end."""

    def read(path: Path) -> Iterator[Session]:
        rows = bad.lines(islice(CONVERSATIONS[kind](path), 60), seed="1")
        return sessions(with_good_order(row) if mend else row for row in rows)

    return read


def session_reader(kind: str) -> Callable[[Path], Iterator[Session]]:
    def read(path: Path) -> Iterator[Session]:
        rows = RECORDED[kind](path)
        return sessions(
            {"conversation": c.conversation, "feature": c.feature, "body": c.body, "reply": c.reply}
            for c in rows
        )

    return read


def flat(path: Path) -> Iterator[Session]:
    """LMCache's traces: each prompt one text."""
    for file in sorted(path.rglob("*.jsonl")):
        rows = [orjson.loads(line) for line in file.read_bytes().splitlines() if line.strip()]
        rows.sort(key=lambda row: row["timestamp"])
        yield from sessions(
            {
                "conversation": row["session_id"],
                "feature": path.name,
                "body": {"messages": [said("user", row["input"])]},
                "reply": said("assistant", row["output"]),
            }
            for row in rows
        )


def cassettes(path: Path) -> Iterator[Session]:
    """crewAI's recorded calls of chat completions, a file a conversation."""
    for file in sorted(path.rglob("*.yaml")):
        try:
            document = yaml.load(file.read_text(encoding="utf8"), yaml.CSafeLoader)
        except yaml.YAMLError:
            continue
        bodies = [
            _chat_body(interaction) for interaction in (document or {}).get("interactions") or ()
        ]
        turns = tuple(SessionTurn(body=body) for body in bodies if body)
        if turns:
            yield Session(name=file.stem, feature="crewai", turns=turns)


def _chat_body(interaction: Mapping[str, Any]) -> Json | None:
    request = interaction["request"]
    body = request.get("body")
    if "chat/completions" not in (request.get("uri") or request.get("url") or "") or not body:
        return None
    body = body.get("string", body) if isinstance(body, dict) else body
    try:
        document = orjson.loads(body)
    except (TypeError, orjson.JSONDecodeError):
        return None
    dropped = {"stream", "stream_options", "max_tokens", "stop"}
    document = {field: value for field, value in document.items() if field not in dropped}
    return document if document.get("messages") else None


def dialogues(path: Path) -> Iterator[Session]:
    """SGD's dialogues: a short system text, then what was said."""
    system = said("system", "You are the desk of several services. Confirm before you book.")
    for file in sorted(path.glob("dialogues_*.json")):
        for dialogue in orjson.loads(file.read_bytes()):
            texts = [turn["utterance"] for turn in dialogue["turns"]]
            users = [turn["speaker"] == "USER" for turn in dialogue["turns"]]
            roles = ["user" if user else "assistant" for user in users]
            yield _session_of_pairs(
                dialogue["dialogue_id"], system, list(zip(roles, texts, strict=True))
            )


def multiwoz(path: Path) -> Iterator[Session]:
    """MultiWOZ's dialogues, from their archive; user and desk speak by turns."""
    system = said("system", "You help tourists in Cambridge. Ask for what is missing.")
    with ZipFile(path) as archive:
        held = orjson.loads(archive.read("val.json"))
    for name, dialogue in held.items():
        log = [turn["text"] for turn in dialogue["log"]]
        pairs = [("assistant" if index % 2 else "user", text) for index, text in enumerate(log)]
        yield _session_of_pairs(name, system, pairs)


def _session_of_pairs(name: str, system: Json, pairs: list[tuple[str, str]]) -> Session:
    history, turns = [system], []
    for role, text in pairs:
        if role == "assistant":
            turns.append(SessionTurn(body={"messages": history}, reply=said(role, text)))
        history = [*history, said(role, text)]
    return Session(name=name, feature="dialogues", turns=tuple(turns))


def blocks(path: Path) -> Iterator[Session]:
    """Mooncake's calls, 512 tokens a block; it does not say whose they are."""
    for file in sorted(path.rglob("conversation_trace.jsonl")):
        for number, line in enumerate(islice(file.open("rb"), 1_000)):
            row = orjson.loads(line)
            texts = [_block(f"mooncake/{hash_id}", 4) for hash_id in row["hash_ids"][:60]]
            body = {"messages": [said("user", "\n".join(texts))]}
            yield Session(name=f"m{number}", feature="mooncake", turns=(SessionTurn(body=body),))


def traces(path: Path) -> Iterator[Session]:
    """Claude Code's sessions, 64 tokens a block; a message holds what a call adds."""
    for file in sorted(path.glob("*.json")):
        trace = orjson.loads(file.read_bytes())
        scope = trace["id"]
        turns: list[SessionTurn] = []
        for request in trace["requests"]:
            hashes = request.get("hash_ids") or []
            if not 0 < len(hashes) <= 900:
                continue
            words = "\n".join(_block(f"{scope}/{hash_id}", 1) for hash_id in hashes)
            turns.append(SessionTurn(body={"messages": [said("user", words)]}))
        if turns:
            yield Session(name=scope, feature="claude-code", turns=tuple(turns))


def _block(seed: str, sections: int) -> str:
    return "\n".join(section(index, f"{seed}/{index}") for index in range(sections))


def questions(path: Path) -> Iterator[Session]:
    """GPTCache's pairs: a sentence and its paraphrase, each asked alone."""
    for number, row in enumerate(orjson.loads(path.read_bytes())):
        turns = tuple(
            SessionTurn(body={"messages": [said("user", str(words))]})
            for words in (row["origin"], row["similar"])
        )
        yield Session(name=f"q{number}", feature="questions", turns=turns)


def subjects(path: Path) -> Iterator[Session]:
    """RouteLLM's questions of MMLU, each asked alone under its subject's rules."""
    for file in sorted(path.glob("*.csv")):
        subject = file.stem.removeprefix("mmlu_").replace("_", " ")
        system = said("system", f"Answer questions about {subject} with one letter.")
        with file.open(encoding="utf8", newline="") as opened:
            for number, row in enumerate(csv.DictReader(opened)):
                body = {"messages": [system, said("user", row["prompt"])]}
                turns = (SessionTurn(body=body, reply=said("assistant", "B")),)
                yield Session(name=f"{subject} {number}", feature="mmlu", turns=turns)


def memory(path: Path) -> Iterator[Session]:
    """GoodAI's long dialogues."""
    for one in goodai(path):
        pairs = [(message["role"], words(message)) for message in one.messages]
        yield _session_of_pairs(one.name, said("system", "You are a helpful assistant."), pairs)
