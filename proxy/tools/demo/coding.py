"""The demo's coding agent, built in the usual way: a loop with tools that resends everything.

The tools are gathered at the start of a session, in any order. The system message begins with the
working directory, the date and the user's name. The conversation grows by a step with each call,
and old tool results are sent again and again.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any

from proxy.tools.demo.conversation import Message, sections, seeded_random, table, text

_USERS = ("Ines Carvalho", "Tom Okafor", "Lea Brandt", "Marek Nowak", "Aya Sato", "Paul Girard")
_UNRECORDED = "The tool gave no output."
_DONE = "Done; the tests pass."


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """A tool call of the recorded conversation, and what the tool gave."""

    tool: str
    arguments: str
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingStep:
    """A step between two calls.

    Attributes:
        says: Text that the agent had written, as recorded; "" at the start.
        uses: The tools it called; none where the user writes next.
        asks: Text that the user writes; "" where tools were called.
    """

    says: str = ""
    uses: tuple[ToolUse, ...] = ()
    asks: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingTask:
    """A task from the user's first message to the last answer."""

    branch: str
    steps: tuple[CodingStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingScript:
    """One session of an agent.

    Attributes:
        task: Questions, and the results of its tools.
        seed: Decides ids and the order of tools.
    """

    task: CodingTask
    rules: str
    tools: tuple[Mapping[str, Any], ...]
    user: str
    seed: str
    model: str
    team: str = "acme-engineering"
    feature: str = "coding-agent"

    @property
    def length(self) -> int:
        """One call after each step."""
        return len(self.task.steps)

    def body(self, turn: int, time: datetime, answers: Sequence[Message | None]) -> dict[str, Any]:
        """The work so far, below the place it happens in, with the tools in some order."""
        home = self.user.split()[0].lower()
        system = (
            f"Working directory: /home/{home}/src/stockroom\n"
            f"Today's date: {time:%A, %d %B %Y}\n"
            f"User: {self.user}\n"
            f"Branch: {self.task.branch}\n\n{self.rules}"
        )
        tools = [{"type": "function", "function": dict(tool)} for tool in self.tools]
        seeded_random(self.seed, "tools").shuffle(tools)
        return {
            "messages": [{"role": "system", "content": system}, *self._work(turn, answers)],
            "tools": tools,
            "tool_choice": "auto",
            "max_completion_tokens": 1500,
        }

    def _work(self, turn: int, answers: Sequence[Message | None]) -> Iterator[Message]:
        """The messages after the system's; each tool call of the agent is answered."""
        for number, step in enumerate(self.task.steps[: turn + 1]):
            if number:
                message = self._agent_message(number, step, answers[number - 1])
                yield message
                yield from _results(message, step)
            if step.asks:
                yield {"role": "user", "content": step.asks}

    def _agent_message(self, number: int, step: CodingStep, answer: Message | None) -> Message:
        """The agent's message before a step: its real words, and recorded calls where it made none.

        An agent that calls a tool of its own accord keeps its call, whatever is recorded.
        """
        if answer and answer.get("tool_calls"):
            return answer
        message: Message = {
            "role": "assistant",
            "content": answer["content"] if answer else step.says,
        }
        if step.uses:
            message["tool_calls"] = [self._call(number, *use) for use in enumerate(step.uses)]
        return message

    def _call(self, number: int, index: int, use: ToolUse) -> dict[str, Any]:
        name = f"call_{seeded_random(self.seed, 'call', number, index).getrandbits(96):024x}"
        function = {"name": use.tool, "arguments": use.arguments}
        return {"id": name, "type": "function", "function": function}


def _results(message: Message, step: CodingStep) -> Iterator[Message]:
    """A result for each call: the next recorded one of that tool, if the step has one left."""
    left = list(step.uses)
    for call in message.get("tool_calls", ()):
        use = next((use for use in left if use.tool == call["function"]["name"]), None)
        if use:
            left.remove(use)
        result = use.result if use else _UNRECORDED
        yield {"role": "tool", "tool_call_id": call["id"], "content": result}


@cache
def tasks() -> tuple[CodingTask, ...]:
    """All recorded tasks."""
    workspace = sections("workspace.md")
    return tuple(
        CodingTask(
            branch=entry["branch"],
            steps=tuple(
                CodingStep(
                    says=step.get("says", ""),
                    uses=tuple(_use(call, workspace) for call in step.get("calls", ())),
                    asks=step.get("asks", ""),
                )
                for step in entry["steps"]
            ),
        )
        for entry in table("tasks.toml", "task")
    )


def _use(call: Mapping[str, Any], workspace: Mapping[str, str]) -> ToolUse:
    """A recorded call; a file's lines are numbered as the tool numbers them."""
    result = call.get("gives", _RESULTS.get(call["tool"], ""))
    if "file" in call:
        lines = workspace[call["file"]].splitlines()
        result = "\n".join(f"{number:4}  {line}" for number, line in enumerate(lines, start=1))
    return ToolUse(tool=call["tool"], arguments=json.dumps(call["with"]), result=result.strip("\n"))


#: Results of tools that change something, when all went well.
_RESULTS = {"edit_file": "1 place changed.", "write_file": "Written.", "commit": "Committed."}


def agents(seed: str, model: str) -> list[CodingScript]:
    """Sessions of two tasks each, in an order the seed decides, each with a user of its own."""
    rules, tools = text("agent.md"), tuple(json.loads(text("tools.json")))
    roll = seeded_random(seed, "tasks")
    order = list(tasks())
    roll.shuffle(order)
    users = roll.sample(_USERS, len(order))
    return [
        CodingScript(
            task=_both(first, second),
            rules=rules,
            tools=tools,
            user=user,
            seed=f"{seed}/{number}",
            model=model,
        )
        for number, (first, second, user) in enumerate(
            zip(order, [*order[1:], order[0]], users, strict=True)
        )
    ]


def _both(first: CodingTask, second: CodingTask) -> CodingTask:
    next_question, *steps = second.steps
    return CodingTask(
        branch=first.branch, steps=(*first.steps, replace(next_question, says=_DONE), *steps)
    )
