"""Documents that leave the system text never arrive as one, whatever cache they are sent to."""

from itertools import chain
from typing import Any

import orjson
import pytest

from tests.fakes.layout_workloads import documents
from tests.proxy.prefix.planning_requests import TARGETS, PlanningProcess, learned_layout

WORKLOAD = next(shape.sent for shape in documents() if "system" in shape.sent.name)
BODIES = [
    [orjson.dumps({**turn.body, "model": "any"}) for turn in session.turns]
    for session in WORKLOAD.sessions[:5]
]
#: Where an expected read saves too little for this layout, nothing moves.
LAYOUT = learned_layout(TARGETS["openai-breakpoint"], chain(*BODIES[:4]))


def system_texts(raw: bytes) -> list[str]:
    return [str(m["content"]) for m in messages(raw) if m["role"] in {"system", "developer"}]


def messages(raw: bytes) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = orjson.loads(raw)["messages"]
    return messages


def document(raw: bytes) -> str:
    """A line of the call's own document."""
    ours, other = (system_texts(sent_body)[0].split("\n") for sent_body in (raw, BODIES[0][0]))
    return next(line for line in ours if len(line) > 200 and line not in other)


@pytest.mark.parametrize("regime", TARGETS)
def test_document_of_the_system_text_arrives_in_a_users_message_on_every_cache(regime: str):
    assert LAYOUT is not None
    process = PlanningProcess(TARGETS[regime], layout=LAYOUT)
    for raw in BODIES[4]:
        sent, words = process.send(raw).body, document(raw)

        assert words not in "".join(system_texts(sent))
        assert words in str(messages(sent)[-1]["content"])
        assert messages(sent)[-1]["role"] == "user"


def test_conversation_before_a_moved_document_is_read_where_the_last_users_message_is_written():
    process = PlanningProcess(TARGETS["openai-breakpoint"], layout=LAYOUT)
    reads = []
    for raw in BODIES[4]:
        sent = process.send(raw).body
        reads.append(messages(sent)[-2]["content"])

    assert all("prompt_cache_breakpoint" in str(content) for content in reads)
