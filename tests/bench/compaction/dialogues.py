"""Recorded dialogues with what their calls need, set by set.

tau: τ-bench's airline agent; a call needs its arguments' values.
sgd x4: SGD's development dialogues of 16 turns and more, four in a row; a service call and its
    results are put into the form of a tool call, its canonical parameters are what it needs; and
    an answer needs the values of the slots that are filled by then. Results are spelt as
    ``json.dumps`` spells them, blanks and all, as τ-bench's recorded agent does.
swe-agent, mini-swe, pi-mono: agents at work on code; a call needs the paths and the identifiers
    that its action names. Where calls were recorded as text they stay text, as did their results.
goodai: a long chat with questions about what was said; its turns need the expected answers' words.
agentdojo: Tasks with mails and bills, some of them with orders hidden in tool results.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson

from tests.bench.recorded import pi_mono as pi_calls
from tests.bench.recorded import swe_agent as swe_calls
from tests.fakes.dialogue import (
    SPELT,
    Dialogue,
    Message,
    Needs,
    argument_values,
    given_back,
    leaves,
    names_in,
)
from tests.fakes.recorded import FOLDER, RecordedDialogue
from tests.fakes.recorded import KINDS as RECORDED
from tests.fakes.recorded import PATHS as RECORDED_PATHS

_OTHERS: Final = FOLDER.parent / "C"
#: Words of an expected answer.
ANSWER_WORDS: Final = re.compile(r"[A-Za-z]{4,}|\d{2,}")


def tau(path: Path) -> Iterator[Dialogue]:
    """τ-bench's airline conversations."""
    return map(_dialogue_with_calls, RECORDED["tau"](path))


def agentdojo(path: Path) -> Iterator[Dialogue]:
    """AgentDojo's runs."""
    return map(_dialogue_with_calls, RECORDED["agentdojo"](path))


def sgd(path: Path, least: int = 16) -> Iterator[Dialogue]:
    """SGD's dialogues of so many turns and more, each speaker's counted."""
    for file in sorted(path.rglob("dialogues_*.json")):
        for dialogue in orjson.loads(file.read_bytes()):
            if len(dialogue["turns"]) >= least:
                messages, tracked = _chat(dialogue)
                yield Dialogue(
                    name=dialogue["dialogue_id"],
                    messages=messages,
                    needs=tracked | argument_values(messages),
                    results=given_back(messages),
                )


def sgd_in_fours(path: Path) -> Iterator[Dialogue]:
    """The same, four one after the other: as long as a chat must be to be worth compacting."""
    them = list(sgd(path))
    return (join_dialogues(them[start : start + 4]) for start in range(0, len(them), 4))


def swe_agent(path: Path) -> Iterator[Dialogue]:
    """SWE-agent's demonstrations, whole."""
    longest: dict[str, list[Message]] = {}
    for call in swe_calls(path):
        longest[call.conversation] = [*call.body["messages"], call.reply or {}]
    return (_dialogue_of_work(name, messages) for name, messages in longest.items())


def mini_swe(path: Path) -> Iterator[Dialogue]:
    """mini-swe-agent's sessions."""
    for one in RECORDED["lmcache"](path):
        system = [{"role": "system", "content": one.rules}] if one.rules else []
        yield _dialogue_of_work(one.name, [*system, *one.messages])


def pi_mono(path: Path) -> Iterator[Dialogue]:
    """pi's long session, one dialogue."""
    longest: dict[str, list[Message]] = {}
    for call in pi_calls(path):
        longest[call.conversation] = [*call.body["messages"], call.reply or {}]
    for name, messages in longest.items():
        yield Dialogue(
            name=name, messages=messages, needs=_actions(messages), results=given_back(messages)
        )


def goodai(path: Path) -> Iterator[Dialogue]:
    """GoodAI's two chats; the words of an expected answer are needed where the answer was given."""
    expected = {_case(file): orjson.loads(file.read_bytes()) for file in path.rglob("*.def.json")}
    for file in sorted(path.rglob("master_log.jsonl")):
        messages: list[Message] = []
        needs: dict[int, Needs] = {}
        questions: dict[str, int] = {}
        tasks: list[str] = []
        for row in map(orjson.loads, file.read_bytes().splitlines()):
            tasks += [row["test_id"]] * (row["type"] in {0, 3, 4, 5})
            if row["type"] in {0, 3}:
                messages.append({"role": "user", "content": row["data"]["message"]})
            elif row["type"] in {4, 5}:
                if row["type"] == 4 and row["data"]["is_question"]:
                    number = questions[row["test_id"]] = questions.get(row["test_id"], -1) + 1
                    responses = expected.get(row["test_id"], {}).get("expected_responses", [])
                    needs[len(messages)] = (_answer(responses[number : number + 1]),)
                messages.append({"role": "assistant", "content": row["data"]["message"]})
        yield Dialogue(
            name=file.parent.name,
            messages=messages,
            needs=needs,
            results=frozenset(),
            tasks=tasks,
        )


#: Reads a set; the path is the one beside it.
SETS: Final[Mapping[str, tuple[Callable[[Path], Iterator[Dialogue]], Path]]] = {
    "tau": (tau, RECORDED_PATHS["tau"]),
    "sgd": (sgd, _OTHERS / "google-research-datasets+dstc8-schema-guided-dialogue/dev"),
    "sgd x4": (sgd_in_fours, _OTHERS / "google-research-datasets+dstc8-schema-guided-dialogue/dev"),
    "swe-agent": (swe_agent, FOLDER / "SWE-agent+SWE-agent"),
    "mini-swe": (mini_swe, RECORDED_PATHS["lmcache"]),
    "pi-mono": (pi_mono, FOLDER / "badlogic+pi-mono"),
    "goodai": (goodai, _OTHERS / "GoodAI+goodai-ltm-benchmark"),
    "agentdojo": (agentdojo, RECORDED_PATHS["agentdojo"]),
}


def dialogues(name: str, every: int = 1) -> list[Dialogue]:
    """Every so manieth dialogue of a set."""
    read, path = SETS[name]
    return list(islice(read(path), 0, None, every))


def join_dialogues(them: Sequence[Dialogue]) -> Dialogue:
    """Dialogues one after the other, under the first one's system text."""
    first, *others = them
    for other in others:
        more = [at for at, message in enumerate(other.messages) if message["role"] != "system"]
        by = len(first.messages) - more[0]
        first = replace(
            first,
            messages=[*first.messages, *(other.messages[at] for at in more)],
            needs={**first.needs, **{at + by: needs for at, needs in other.needs.items()}},
            results=first.results | {at + by for at in other.results},
        )
    return first


def dialogues_in_chains(name: str, length: int, every: int = 1) -> list[Dialogue]:
    """A set's dialogues one after the other, so many each; none that ends with an open call."""
    them = [one for one in dialogues(name, every) if not one.messages[-1].get("tool_calls")]
    return [join_dialogues(them[start : start + length]) for start in range(0, len(them), length)]


def _dialogue_with_calls(one: RecordedDialogue) -> Dialogue:
    messages = [{"role": "system", "content": one.rules}, *one.messages]
    return Dialogue(
        name=one.name,
        messages=messages,
        needs=argument_values(messages),
        results=given_back(messages),
        tools=one.tools,
    )


def _dialogue_of_work(name: str, messages: Sequence[Message]) -> Dialogue:
    """An agent's work on one task: the first user message is the task, later ones are results."""
    task = next(index for index, message in enumerate(messages) if message["role"] == "user")
    back = {
        index
        for index, said in enumerate(messages)
        if index > task and said["role"] in {"user", "tool"}
    }
    return Dialogue(name=name, messages=messages, needs=_actions(messages), results=frozenset(back))


def _actions(messages: Sequence[Message]) -> dict[int, Needs]:
    """Values that actions name: calls' arguments, or text in fences."""
    actions = {}
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            acts = [" ".join(_leaves(call)) for call in message.get("tool_calls") or ()]
            acts += (message.get("content") or "").split("```")[1::2]
            actions[at] = tuple(names_in(act) for act in acts)
    return {at: needs for at, needs in actions.items() if any(needs)}


def _leaves(call: Mapping[str, Any]) -> Iterator[str]:
    try:
        return leaves(orjson.loads(call["function"]["arguments"]))
    except orjson.JSONDecodeError:
        return iter([str(call["function"]["arguments"])])


def _chat(dialogue: Mapping[str, Any]) -> tuple[list[Message], dict[int, Needs]]:
    """The messages, and behind each message of the user the slots that it leaves filled."""
    messages: list[Message] = []
    tracked: dict[int, Needs] = {}
    spelt: dict[str, str] = {}
    for index, turn in enumerate(dialogue["turns"]):
        for frame in turn["frames"]:
            called = frame.get("service_call")
            if called:
                messages += _service(f"call_{index}_{frame['service']}", called, frame)
        role = "user" if turn["speaker"] == "USER" else "assistant"
        messages.append({"role": role, "content": turn["utterance"]})
        filled = [frame.get("state", {}).get("slot_values", {}) for frame in turn["frames"]]
        spelt |= _canonical(turn)
        slots = [
            ("slot", _spelt(slot_values, spelt)) for each in filled for slot_values in each.values()
        ]
        if slots:
            tracked[len(messages)] = (tuple(slots),)
    return messages, tracked


def _canonical(turn: Mapping[str, Any]) -> dict[str, str]:
    """The calls and results behind the text of this turn."""
    acts = [act for frame in turn["frames"] for act in frame["actions"]]
    pairs = [
        pair for act in acts for pair in zip(act["values"], act["canonical_values"], strict=False)
    ]
    return dict(pairs)


def _spelt(spellings: Sequence[str], spelt: Mapping[str, str]) -> str:
    return SPELT.join(
        dict.fromkeys(
            [*spellings, *(spelt[spelling] for spelling in spellings if spelling in spelt)]
        )
    )


def _service(name: str, called: Mapping[str, Any], frame: Mapping[str, Any]) -> list[Message]:
    arguments = orjson.dumps(called["parameters"]).decode()
    function = {"name": called["method"], "arguments": arguments}
    results = json.dumps(frame.get("service_results", []), ensure_ascii=False)
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": name, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": name, "content": results},
    ]


def _case(file: Path) -> str:
    return f"{file.parent.name} - {file.name.partition('.')[0]}"


def _answer(answer: object) -> tuple[tuple[str, str], ...]:
    return tuple(
        ("word", word)
        for word in dict.fromkeys(w for leaf in leaves(answer) for w in ANSWER_WORDS.findall(leaf))
    )
