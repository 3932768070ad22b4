"""Each call looks up what the call before it wrote: in every regime and shape."""

from itertools import pairwise
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.planned import Planned
from proxy.prefix.prediction.lookups import entry_keys, lookup_places, written_breakpoints
from proxy.prefix.prediction.sent_call import SentCall
from tests.examples import examples
from tests.proxy.prefix.planning_requests import (
    RULES,
    TARGETS,
    Json,
    PlanningProcess,
    body,
    chat_message,
    planning_request,
    tool,
)

REGIMES: Final = ("anthropic-breakpoint", "openai-breakpoint")
FOUND: Final = "Line after line of what was found. " * 40
IMAGE: Final = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUFBQQ=="}}


class DialogueShape(msgspec.Struct, frozen=True, kw_only=True):
    """Describes the calls of an agent.

    Attributes:
        tail: Messages at the end of each call that vary.
        role: Who speaks in them.
        stays: Whether the next call has them still, in other words, before the answer.
        tools: Results of tools in each turn; 0 where the user speaks instead.
        sees: Whether what the user says comes with an image.
        greets: Messages that every conversation begins with.
    """

    tail: int = 0
    role: str = "user"
    stays: bool = False
    tools: int = 0
    sees: bool = False
    greets: int = 0


SHAPES = st.builds(
    DialogueShape,
    tail=st.integers(0, 3),
    role=st.sampled_from(["user", "developer", "system"]),
    stays=st.booleans(),
    tools=st.integers(0, 4),
    sees=st.booleans(),
    greets=st.integers(0, 2),
)


def heard(shape: DialogueShape, words: str) -> Json:
    if not shape.sees:
        return chat_message("user", words)
    return chat_message("user", [{"type": "text", "text": words}, IMAGE])


def reminders(shape: DialogueShape, call: int) -> list[Json]:
    return [chat_message(shape.role, f"It is {call} past {index}.") for index in range(shape.tail)]


def turn(shape: DialogueShape, name: str, at: int) -> list[Json]:
    """An answer and what comes of it."""
    if not shape.tools:
        return [
            chat_message("assistant", f"Step {at}: {FOUND}"),
            heard(shape, f"Go on, {name} {at}."),
        ]
    calls = [
        {
            "id": f"c{at}.{index}",
            "type": "function",
            "function": {"name": "look", "arguments": "{}"},
        }
        for index in range(shape.tools)
    ]
    results = [
        {
            "role": "tool",
            "tool_call_id": f"c{at}.{index}",
            "content": f"{name} {at} {index}: {FOUND}",
        }
        for index in range(shape.tools)
    ]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]


def conversation(shape: DialogueShape, name: str, calls: int) -> list[bytes]:
    """The bodies of its calls, one after the other."""
    messages = [chat_message("system", RULES)]
    messages += [
        chat_message("user", f"A greeting, number {index}.") for index in range(shape.greets)
    ]
    messages.append(heard(shape, f"Mend file {name}."))
    bodies = []
    for index in range(calls):
        ending = reminders(shape, index)
        bodies.append(body(*messages, *ending, tools=[tool("look")]))
        messages += [
            *(reminders(shape, 100 + index) if shape.stays else []),
            *turn(shape, name, index),
        ]
    return bodies


def written_entries(sent: SentCall) -> set[int]:
    """The entries that a call writes, as they are known by."""
    return {sent.entry_points[at] + by for at, _, by in written_breakpoints(sent, 0)}


def sought_entries(sent: SentCall) -> set[int]:
    """The entries that a call looks for."""
    return {key for place in lookup_places(sent) for key in entry_keys(sent, place)}


def unread(earlier: Planned, later: Planned) -> set[int]:
    """Return what the earlier call wrote of the later one's prompt, and no lookup of that finds."""
    before, now = earlier.evidence.sent, later.evidence.sent
    shared = {point + by for point in now.entry_points[1:] for by in (1, 2)}
    mine = written_entries(before) & shared
    longest = [
        key for index in range(len(now.points)) for key in mine if key in entry_keys(now, index)
    ]
    return set(longest[-1:]) - sought_entries(now)


def read(call: Planned) -> int:
    """Bytes of the prompt that should be read from the cache."""
    evidence = call.evidence
    places = [place for place in lookup_places(evidence.sent) if place <= evidence.expected.same]
    tokens = evidence.expected.tokens
    scale = evidence.expected.scale
    return max(
        (
            evidence.sent.ends[place]
            for place in places
            if scale.tokens_of(evidence.sent.ends[place]) <= tokens
        ),
        default=0,
    )


def repeated_bytes(call: Planned, shape: DialogueShape) -> int:
    """Bytes of a call that the next one repeats and a mark can end."""
    sent = call.evidence.sent
    at = len(sent.blocks) - shape.tail
    while sent.blocks[at - 1].role == "assistant":
        at -= 1
    return sent.ends[at]


def last_conversation(
    shape: DialogueShape, regime: str, conversations: int = 6, calls: int = 9
) -> list[Planned]:
    """The calls of the last of some conversations."""
    process, planned_calls = PlanningProcess(TARGETS[regime]), []
    for name in range(conversations):
        bodies = conversation(shape, f"f{name}", calls)
        planned_calls = [process.plan_and_settle(planning_request(raw)) for raw in bodies]
    return planned_calls


@pytest.mark.slow
@pytest.mark.parametrize("regime", REGIMES)
@examples(21)
@given(shape=SHAPES)
def test_a_call_looks_up_what_the_one_before_it_wrote_and_reads_all_but_what_varies(regime, shape):
    conversation_found = last_conversation(shape, regime)

    pairs = enumerate(pairwise(conversation_found))
    assert [at for at, (one, other) in pairs if unread(one, other)] == []
    for earlier, later in list(pairwise(conversation_found))[2:]:
        assert read(later) >= repeated_bytes(earlier, shape)
