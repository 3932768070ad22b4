"""Bodies that the load's callers send, made without a network.

A scene yields one call after the other, and is sent the text of each answer.
"""

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.load import texts

CHAT: Final = "/v1/chat/completions"
RESPONSES: Final = "/v1/responses"
SMALL: Final = "gpt-5.4-mini"
LARGE: Final = "claude-sonnet-5-5"
#: Turns of a coding agent, and steps of a loop over a tool.
AGENT_TURNS: Final = 12
LOOP_STEPS: Final = 3
#: Events after which a caller that leaves early has seen enough.
LEAVES_AFTER: Final = 5


@dataclass(frozen=True, slots=True)
class Step:
    """One call.

    Attributes:
        mix: What its figures are booked on; sent as the call's feature.
        body: What is sent; a text where it is no JSON on purpose.
        expects: The status of a good answer.
        leaves_after: Events after which the caller leaves; 0 to stay.
    """

    mix: str
    body: Mapping[str, Any] | str
    path: str = CHAT
    expects: int = 200
    leaves_after: int = 0

    @property
    def data(self) -> bytes:
        """The body as it is sent."""
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()

    @property
    def is_stream(self) -> bool:
        """The answer is asked for as a stream."""
        return isinstance(self.body, Mapping) and self.body.get("stream") is True


Scene = Generator[Step, str, None]


def short_chat(random: Random) -> Scene:
    """A customer's question, and one more."""
    messages = [{"role": "system", "content": texts.SUPPORT}]
    for question in random.sample(texts.QUESTIONS, 2):
        messages.append({"role": "user", "content": question})
        streams = random.random() < 0.5
        answer = yield Step("short chat", _chat(SMALL, messages, streams=streams, limit=80))
        messages.append({"role": "assistant", "content": answer or "I do not know."})


def retrieval(random: Random) -> Scene:
    """A question behind six passages that a search found, in another order each time."""
    passages_drawn = random.sample(texts.PASSAGES, 6)
    passages = "\n\n".join(f"## {title}\n{text}" for title, text in passages_drawn)
    question = f"Answer by these passages alone.\n\n{passages}\n\n{random.choice(texts.QUESTIONS)}"
    messages = [
        {"role": "system", "content": texts.SUPPORT},
        {"role": "user", "content": question},
    ]
    yield Step("retrieval", _chat(SMALL, messages, streams=random.random() < 0.3, limit=120))


def coding_agent(random: Random) -> Scene:
    """A session whose history grows with every file that is read; all of it is sent each time."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": texts.AGENT},
        {"role": "user", "content": random.choice(texts.TASKS)},
    ]
    for turn in range(AGENT_TURNS):
        body = _chat(LARGE, messages, streams=True, limit=100)
        answer = yield Step("coding agent", body | {"tools": [_FILE]})
        call, path = f"call_{turn}", f"shop/step_{turn}.py"
        messages += [
            {
                "role": "assistant",
                "content": answer or None,
                "tool_calls": [_tool_call(call, path)],
            },
            {"role": "tool", "tool_call_id": call, "content": f"{path}\n{texts.LISTING}"},
        ]


def tool_loop(random: Random) -> Scene:
    """A question for the Responses API that takes a few calls of a tool."""
    cities = random.sample(texts.WEATHER, LOOP_STEPS)
    question = f"Where is it warmest: {', '.join(cities)}?"
    items: list[dict[str, Any]] = [{"role": "user", "content": question}]
    for number, city in enumerate(cities):
        body = {"model": SMALL, "input": list(items), "tools": [_WEATHER], "store": False}
        streams = random.random() < 0.5
        yield Step("tool loop", body | {"stream": streams, "max_output_tokens": 60}, RESPONSES)
        call = f"call_{number}"
        arguments = json.dumps({"city": city})
        named = {"type": "function_call", "call_id": call, "name": "weather"}
        items += [
            {**named, "arguments": arguments},
            {"type": "function_call_output", "call_id": call, "output": f"{random.randint(1, 30)}"},
        ]


def abandoned_stream(random: Random) -> Scene:
    """A long stream whose caller leaves after its first events."""
    messages = [{"role": "user", "content": f"{texts.STORY} Number {random.randint(1, 9)}."}]
    body = _chat(SMALL, messages, streams=True, limit=2000)
    yield Step("abandoned stream", body, leaves_after=LEAVES_AFTER)


def bad_input(random: Random) -> Scene:
    """A mistake of a caller, which must be refused and cost nothing."""
    hello = [{"role": "user", "content": "Good morning."}]
    body, status, path = random.choice(
        (
            ("{", 400, CHAT),
            ({"messages": hello}, 400, CHAT),
            ({"model": SMALL, "messages": hello, "stream": "yes"}, 400, CHAT),
            ({"model": "no-such-model-at-all", "messages": hello}, 404, CHAT),
            ({"model": SMALL, "messages": "Good morning."}, 400, CHAT),
            ({"model": SMALL, "messages": hello}, 404, "/v1/v1/chat/completions"),
        )
    )
    yield Step("bad input", body, path, expects=status)


#: The mixes, and how often each is met.
MIXES: Final = {
    short_chat: 6,
    retrieval: 4,
    coding_agent: 2,
    tool_loop: 2,
    abandoned_stream: 1,
    bad_input: 1,
}
_FILE: Final = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read a file of the repository.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        },
    },
}
_WEATHER: Final = {
    "type": "function",
    "name": "weather",
    "description": "The temperature of a city now.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


def _chat(
    model: str, messages: list[dict[str, Any]], *, streams: bool, limit: int
) -> dict[str, Any]:
    body = {"model": model, "messages": list(messages), "max_completion_tokens": limit}
    if not streams:
        return body
    return body | {"stream": True, "stream_options": {"include_usage": True}}


def _tool_call(call: str, path: str) -> dict[str, Any]:
    arguments = json.dumps({"path": path})
    return {
        "id": call,
        "type": "function",
        "function": {"name": "read_file", "arguments": arguments},
    }
