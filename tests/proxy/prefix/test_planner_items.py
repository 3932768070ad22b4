"""Calls of the Responses API, planned like chat's: marks, keys, one order of tools, every word."""

from collections.abc import Sequence
from functools import cache
from itertools import islice, pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.caches.port import TokenBlock
from proxy.prefix.arrangement import arrange_prompt
from proxy.prefix.arrangement import mark_prompt as marked
from proxy.prefix.breakpoints.plan import BreakpointPolicy, Plan
from proxy.prefix.planner import Planner
from proxy.tools.simulator.apis.responses import RESPONSES
from proxy.tools.simulator.bodies import parse_body
from proxy.tools.simulator.models import SimulatedModel
from proxy.tools.simulator.rendering import END, Vocabulary
from proxy.tools.simulator.replies import ReadingContext
from tests.examples import examples
from tests.fakes.badly_built import raw_bodies
from tests.fakes.conversations import CONVERSATIONS
from tests.fakes.planned_body_check import assert_nothing_lost
from tests.fakes.recorded import KINDS, PATHS, RecordedDialogue
from tests.fakes.responses_bodies import as_responses_body
from tests.proxy.prefix.planning_requests import (
    RULES,
    SECRET,
    TARGETS,
    Json,
    PlanningProcess,
    chat_message,
    learned_layout,
    planning_request,
)

REGIMES = sorted(TARGETS.keys() - {"anthropic-breakpoint"})
BUILT = {"well": RecordedDialogue.bodies, "badly": raw_bodies}
NEWEST = "openai-breakpoint"
POINT = {"mode": "explicit"}
#: Of each recorded set every so manieth conversation.
EVERY = {"tau": 40, "agentdojo": 100, "lmcache": 25}


def body(items: object, **fields: object) -> bytes:
    return orjson.dumps({"model": "any", **fields, "input": items})


def function(name: str) -> Json:
    return {"type": "function", "name": name, "parameters": {"type": "object"}}


def body_as_sent(raw: bytes, regime: str = NEWEST) -> Any:
    """Return what is sent of a call that is the first of its conversation."""
    return orjson.loads(PlanningProcess(TARGETS[regime]).plan(planning_request(raw)).body)


def test_rules_among_the_items_are_marked():
    part = {"type": "input_text", "text": RULES}
    sent_body = body_as_sent(
        body([chat_message("developer", [part]), chat_message("user", "Where is my parcel?")])
    )

    assert sent_body["input"][0]["content"] == [{**part, "prompt_cache_breakpoint": POINT}]
    assert sent_body["input"][1] == chat_message("user", "Where is my parcel?")


def test_the_rules_behind_tools_in_the_input_are_marked():
    tools = {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [{"a": "b"}]}
    part = {"type": "input_text", "text": RULES}
    sent_body = body_as_sent(
        body([tools, chat_message("developer", [part]), chat_message("user", "So?")])
    )

    assert sent_body["input"][0] == tools
    assert sent_body["input"][1]["content"] == [{**part, "prompt_cache_breakpoint": POINT}]


def test_tools_in_the_input_alone_carry_no_mark_and_nothing_is_said_of_one():
    many = [{"type": "function", "name": f"f{number}", "about": RULES} for number in range(9)]
    tools = {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": many}
    raw = body([tools, chat_message("user", "So?")])
    planned = PlanningProcess(TARGETS[NEWEST]).plan(planning_request(raw))

    assert orjson.loads(planned.body) == orjson.loads(raw)
    assert planned.notes == ()


def test_instructions_that_nobody_stores_are_marked_as_a_message():
    sent_body = body_as_sent(body("Where is my parcel?", instructions=RULES, store=False))

    assert "instructions" not in sent_body
    part = {"type": "input_text", "text": RULES, "prompt_cache_breakpoint": POINT}
    assert sent_body["input"][0] == {"role": "developer", "content": [part]}


def test_instructions_that_are_stored_stay_and_no_mark_is_said_to_stand_there():
    process = PlanningProcess(TARGETS[NEWEST])
    planned = process.plan(planning_request(body("Where is my parcel?", instructions=RULES)))
    now = orjson.loads(planned.body)

    assert (now["instructions"], now["input"]) == (RULES, "Where is my parcel?")
    assert 0 not in planned.evidence.sent.marks


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(
    "fields", [{}, {"tools": [{"type": "function", "name": "find"}]}, {"instructions": RULES}]
)
@pytest.mark.parametrize("regime", REGIMES)
def test_an_input_without_items_is_planned_and_stays_empty(regime, fields, stored):
    process, raw = PlanningProcess(TARGETS[regime]), body([], store=stored, **fields)
    for _ in range(2):
        assert_nothing_lost(raw, process.plan_and_settle(planning_request(raw)).body)

    assert process.plan_and_settle(planning_request(raw)).evidence.expected.same == len(fields)


def test_a_tools_result_can_carry_the_mark_of_a_conversation_that_goes_on():
    call = {"type": "function_call", "call_id": "c", "name": "find", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "Case 7."}
    items = [chat_message("user", RULES), call, result]
    to, draft = TARGETS[NEWEST], Planner(SECRET).read_call(planning_request(body(items)))
    marked_body = marked(
        draft,
        to,
        arrange_prompt(draft, Plan(), None, late=True),
        BreakpointPolicy(ttl="30m", places=4),
    )
    _, called, given = orjson.loads(marked_body.body)["input"]

    part = {"type": "input_text", "text": "Case 7.", "prompt_cache_breakpoint": POINT}
    assert (called, given) == (call, {**result, "output": [part]})


def test_tools_are_sent_in_one_order_and_a_new_one_comes_last():
    process = PlanningProcess(TARGETS["openai-interval"])

    def order(turns: int, *names: str) -> list[str]:
        items = [chat_message("user", RULES)]
        items += [chat_message("assistant", "Hm."), chat_message("user", "So?")] * turns
        raw = body(items, tools=[function(name) for name in names])
        return [tool["name"] for tool in orjson.loads(process.send(raw).body)["tools"]]

    assert order(0, "b", "a") == ["b", "a"]
    assert order(1, "b", "c", "a") == ["b", "a", "c"]
    assert order(2, "b", "0", "a") == ["b", "a", "0"]


def test_a_call_to_a_cache_that_routes_by_the_prompt_is_not_given_a_key():
    sent_body = body_as_sent(body(RULES), "openai-interval")

    assert "prompt_cache_key" not in sent_body
    assert sent_body["input"] == RULES


def test_words_that_are_declared_to_vary_come_last():
    rules = f"{RULES}<tg:variable>It is noon.</tg:variable>"
    sent_body = body_as_sent(
        body("Where is my parcel?", instructions=rules, store=False), "openai-interval"
    )

    assert "noon" not in sent_body["instructions"]
    assert "noon" in sent_body["input"][-1]["content"]
    assert sent_body["input"][-1]["role"] == "developer"


@pytest.mark.parametrize("words", ["", " Write tg: before links, as in tg://resolve."])
def test_instructions_that_are_stored_and_declare_nothing_stay(words: str):
    rules = RULES + words
    sent_body = body_as_sent(body("Where is my parcel?", instructions=rules))

    assert (sent_body["instructions"], sent_body["input"]) == (rules, "Where is my parcel?")


@pytest.mark.parametrize("regime", [NEWEST, "openai-interval"])
def test_of_instructions_that_are_stored_only_what_is_declared_moves(regime: str):
    rules = f"{RULES}<tg:semi>Ada asks.</tg:semi><tg:variable>It is noon.</tg:variable>"
    sent_body = body_as_sent(body("Where is my parcel?", instructions=rules), regime)
    semi, question, varies = sent_body["input"]

    assert sent_body["instructions"] == RULES
    assert "Ada asks." in str(semi["content"])
    assert question == chat_message("user", "Where is my parcel?")
    assert "It is noon." in str(varies["content"])


def test_instructions_that_are_stored_stay_where_all_that_they_declare_is_stable():
    sent_body = body_as_sent(
        body("Where is my parcel?", instructions=f"<tg:stable>{RULES}</tg:stable>")
    )

    assert (sent_body["instructions"], sent_body["input"]) == (RULES, "Where is my parcel?")


def body_with_date(number: int) -> bytes:
    rules = f"Current time: 2026-11-{number:02d} 10:{number}\n{RULES}"
    items = [chat_message("user", f"Question {number}")]
    return body(items, instructions=rules, store=False)


def test_instructions_that_begin_with_what_varies_are_learned_and_put_in_order():
    to = TARGETS["openai-interval"]
    layout = learned_layout(to, map(body_with_date, range(1, 26)), shows=True)
    process = PlanningProcess(to, layout=layout)
    first, second = [
        process.plan(planning_request(body_with_date(number))).body for number in (28, 29)
    ]

    assert layout is not None
    assert layout.moves[0].shows == "line 1 `Current time: …`"
    assert_nothing_lost(body_with_date(28), first)
    one, other = [orjson.loads(sent)["instructions"] for sent in (first, second)]
    assert one[: len(RULES)] == other[: len(RULES)] == RULES


def test_a_call_with_nothing_to_change_goes_byte_for_byte():
    raw = b'{ "model":"any" , "input" : [ {"role":"user","content":"%b"} ] }' % (b"x" * 9_000)

    assert PlanningProcess(TARGETS["prefix-unit"]).plan(planning_request(raw)).body is raw
    control = PlanningProcess(TARGETS[NEWEST], share=1.0).plan(planning_request(raw))
    assert control.body is raw


def test_effort_is_a_parameter_of_the_prefix():
    process = PlanningProcess(TARGETS[NEWEST])
    calls = [
        process.plan(planning_request(body(RULES, reasoning={"effort": e})))
        for e in ("low", "high")
    ]
    first, second = [call.evidence.sent.early["reasoning.effort"] for call in calls]

    assert first != second


@cache
def context(regime: str) -> ReadingContext:
    return ReadingContext(Vocabulary(), SimulatedModel(regime=regime), "key")


def blocks_before_tail(raw: bytes, tail: int, regime: str) -> Sequence[TokenBlock]:
    """The blocks of a call but for its tail and what primes the answer."""
    document = orjson.loads(raw)
    if tail:
        document["input"] = document["input"][:-tail]
    return RESPONSES.read_request(
        parse_body(orjson.dumps(document)), context(regime)
    ).prompt.blocks[:-1]


def core(blocks: Sequence[TokenBlock]) -> list[tuple[str, tuple[int, ...]]]:
    """Return what must stay of blocks, but for the ends of messages."""
    return [
        (block.role, block.tokens[:-1] if block.tokens[-1:] == (END,) else block.tokens)
        for block in blocks
    ]


def judge(one: RecordedDialogue, regime: str, built: str, *, stored: bool) -> None:
    """Pass a conversation that is kept whole; one that is built well extends its prefix too."""
    process = PlanningProcess(TARGETS[regime])
    calls = []
    for raw in BUILT[built](one):
        came = as_responses_body(raw, stored=stored)
        sent = process.send(came)
        assert_nothing_lost(came, sent.body)
        calls.append(blocks_before_tail(sent.body, sent.tail, regime))
    if built == "badly":
        return  # its instructions change with each call
    for before, after in pairwise(calls):
        assert core(after)[: len(before)] == core(before)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("built", BUILT)
@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("one", CONVERSATIONS, ids=lambda one: one.name)
def test_a_conversation_is_kept_whole_and_extends_its_prefix(one, regime, built, stored):
    judge(one, regime, built, stored=stored)


@pytest.mark.slow
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_so_is_a_recorded_one(kind, stored):
    if not PATHS[kind].exists():
        pytest.skip(f"no recordings at {PATHS[kind]}")
    for one in islice(KINDS[kind](PATHS[kind]), 0, None, EVERY[kind]):
        judge(one, NEWEST, "well", stored=stored)


TEXT = st.text(max_size=30) | st.sampled_from([RULES, "<tg:semi>Ada</tg:semi>", '"type":"text"'])
PARTS = st.lists(
    st.builds(lambda text: {"type": "input_text", "text": text}, TEXT), min_size=1, max_size=3
)
MESSAGE = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["user", "developer", "assistant"]),
    TEXT | PARTS,
)
CALLED = st.builds(
    lambda output: [
        {"type": "function_call", "call_id": "c", "name": "find", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": output},
    ],
    TEXT | PARTS,
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    pieces = draw(st.lists(st.builds(lambda one: [one], MESSAGE) | CALLED, max_size=5))
    items = [chat_message("user", RULES), *(item for piece in pieces for item in piece)]
    fields: Json = {"store": draw(st.booleans()), "instructions": draw(TEXT)}
    if draw(st.booleans()):
        fields["tools"] = [function(name) for name in draw(st.permutations(["a", "b", "c"]))]
    return body(items, **fields)


@pytest.mark.slow
@examples(30, deadline=None)
@given(bodies(), st.sampled_from(REGIMES))
def test_every_word_and_tool_is_kept_in_its_order(raw: bytes, regime: str):
    assert_nothing_lost(raw, PlanningProcess(TARGETS[regime]).plan(planning_request(raw)).body)
