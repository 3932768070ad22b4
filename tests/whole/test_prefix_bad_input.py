"""Planning of prompts that nobody should send: it is quick, and loses nothing."""

from collections.abc import Iterator, Mapping
from time import thread_time

import httpx
import msgspec
import orjson
import pytest

from proxy.prefix.layouts.layout import Anchor, Layout, LayoutMove
from proxy.prefix.lessons import LayoutLearner
from proxy.prefix.planned import Planned, PlanningRequest, PlanningTarget
from proxy.prefix.planner import Planner
from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.prompt import PromptSlot
from proxy.records.feature_mode import PlanningMode
from slo.usage import Usage
from tests.bench.planning import way
from tests.fakes.planned_body_check import assert_nothing_lost
from tests.fakes.prefix_harness import PrefixHarness, prefix_harness

MODEL = "gpt-6.1-sol"
RULES = "Answer the clerk in four words and cite the rule that you follow.\n" * 90
DEEP = b"[" * 50_000 + b"]" * 50_000
#: Seconds of processor time that the worst prompt may take, on a slow machine that is shared.
PATIENCE = 3.0
#: Bytes that planning, and what it learns, may remember here.
MAX_BYTES = 400_000
Json = Mapping[str, object]


def chat(*messages: Json, **fields: object) -> bytes:
    return orjson.dumps({"model": MODEL, "messages": messages, **fields})


def body_with_rules(words: object, **fields: object) -> bytes:
    user = {"role": "user", "content": "What now?"}
    return chat({"role": "system", "content": words}, user, **fields)


def raw_body(messages: bytes = b"", more: bytes = b"", tools: bytes = b"") -> bytes:
    """A body as bytes say, where no JSON writer would."""
    usual = orjson.dumps([{"role": "system", "content": RULES}, {"role": "user", "content": "Hi"}])
    pieces = [b'"model":"' + MODEL.encode() + b'"', b'"messages":' + (messages or usual), more]
    return b"{" + b",".join(piece for piece in (*pieces, tools) if piece) + b"}"


def message(inner: bytes) -> bytes:
    content = orjson.dumps({"role": "system", "content": RULES})
    return b"[" + content + b',{"role":"user",' + inner + b"}]"


def tool(name: object, **fields: object) -> Json:
    return {"type": "function", "function": {"name": name, **fields}}


TAGGED: Json = {"role": "user", "content": "<tg:variable>x</tg:variable>y"}
TURN: list[Json] = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
MARK = {"type": "text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit"}}
#: Bodies that go unmodified.
LEFT = {
    "two fields of messages": raw_body(more=b'"messages":[{"role":"user","content":"lost?"}]'),
    "two models": raw_body(more=b'"model":"other"'),
    "an escaped field": raw_body(more=b'"\\u0075ser":"me"'),
    "two contents": raw_body(message(b'"content":"lost?","content":"kept"')),
    "two texts in a part": raw_body(message(b'"content":[{"type":"text","text":"a","text":"b"}]')),
    "10,000 tools": body_with_rules(RULES, tools=[tool(f"t{number}") for number in range(10_000)]),
    "100,000 messages": chat(*TURN * 50_000),
    "100,000 parts": body_with_rules([{"type": "text", "text": "x"}] * 100_000),
    "30 times 4,000 parts": chat(*[{"role": "system", "content": ["x"] * 4_000}] * 30, *TURN),
    "8 MB and more": body_with_rules(RULES * 1_500),
    "nested fields": raw_body(more=b'"x":' + DEEP),
    "a nested content": raw_body(message(b'"content":' + DEEP)),
    "a lone surrogate": raw_body(message(b'"content":"\\ud800"')),
    "a lone surrogate as a key": raw_body(more=b'"\\udfff":1'),
    "no UTF-8 in a message": raw_body(message(b'"content":"\xff"')),
    "no UTF-8 in a key": raw_body(more=b'"\xff":1'),
    "not a number": raw_body(more=b'"temperature":NaN'),
    "a number too large for a float": raw_body(message(b'"content":"a","n":1e999')),
    "a number of many digits": raw_body(message(b'"content":"a","n":' + b"9" * 9_999)),
    "a content that is a number": body_with_rules(5, x=RULES),
    "a content that is an object": body_with_rules({"text": RULES}),
    "a role that is a number": chat({"role": 5, "content": RULES}),
    "messages that are no objects": raw_body(b'[1,null,"' + b"x" * 3_000 + b'"]'),
    "tools that are an object": body_with_rules(RULES, tools={"a": 1}),
    "a body that ends early": body_with_rules(RULES)[:-9],
    "a body with a mark of its order": b"\xef\xbb\xbf" + body_with_rules(RULES),
}
#: Bodies that may be planned, and then lose nothing.
PLANNED = {
    "a tag never closed": body_with_rules("<tg:variable>" + RULES),
    "crossing tags": body_with_rules(
        f"<tg:stable>a<tg:variable>b</tg:stable>c</tg:variable>{RULES}"
    ),
    "nested tags": body_with_rules("<tg:variable>" * 500 + "x" + "</tg:variable>" * 500 + RULES),
    "unknown tags": body_with_rules("<tg:nobody>x</tg:nobody>" + RULES),
    "many tags": body_with_rules("<tg:variable>x</tg:variable>y" * 20_000),
    "many texts with tags": chat(
        *[{"role": "system", "content": "<tg:variable>x</tg:variable>y" * 300}] * 60, *TURN
    ),
    "many messages with tags": chat(*[TAGGED, TURN[1]] * 2_000),
    "openings of tags": body_with_rules("<tg:" * 200_000),
    "tools that are no objects": body_with_rules(
        RULES, tools=[1, "a", None, [], tool(3), tool("")]
    ),
    "one tool three times": body_with_rules(RULES, tools=[tool("a")] * 3),
    "1,000 tools": body_with_rules(RULES, tools=[tool(f"t{number}") for number in range(1_000)]),
    "a tool with a key twice": raw_body(
        tools=b'"tools":[{"type":"function","function":{"name":"b","name":"a"}}]'
    ),
    "5 MB of rules": body_with_rules("This is a line of rules.\n" * 200_000),
    "5 MB of different lines": body_with_rules(
        "\n".join(f"Rule {number}: wait." for number in range(270_000))
    ),
    "5 MB in one line": body_with_rules("word " * 1_000_000),
    "4,000 messages": chat({"role": "system", "content": RULES}, *TURN * 2_000),
    "4,000 leading messages": chat(*[{"role": "system", "content": "x"}] * 4_000, TURN[0]),
    "4,000 parts": body_with_rules(
        [{"type": "text", "text": f"Part {number}"} for number in range(4_000)]
    ),
    "4,000 marks": body_with_rules([MARK] * 4_000),
    "9,000 calls of tools": chat(
        TURN[0], {"role": "assistant", "tool_calls": [{"id": "a", "function": {}}] * 9_000}
    ),
    "no content": chat({"role": "system", "content": None}, TURN[0], x=RULES),
    "parts of all kinds": body_with_rules([1, None, [], RULES, {"type": 5}, {"text": []}]),
    "marks of all kinds": chat({"role": "user", "content": [MARK | {"cache_control": 5}]}, x=RULES),
    "fields of other kinds": body_with_rules(
        RULES, metadata=5, user={"a": 1}, prompt_cache_key=[1]
    ),
    "null bytes": body_with_rules("\0" + RULES, user="\0"),
    "a number too large in a field": raw_body(more=b'"temperature":1e999'),
    "no UTF-8 in a field": raw_body(more=b'"x":"\xff"'),
}
GONE = Layout(
    version=1,
    moves=tuple(
        LayoutMove(
            before=Anchor("00" * 16, size),
            after=None,
            slot=PromptSlot.VARIABLE,
            label=f"Detail {size}",
        )
        for size in range(1, 500)
    ),
)
#: What takes the other end of the wire long, not the gateway.
LONG = {"100,000 messages", "100,000 parts", "30 times 4,000 parts"}


def plan_and_settle(
    planner: Planner, body: bytes, to: PlanningTarget, layout: Layout | None = None
) -> Planned:
    """The call, planned and settled as its conversation's first."""
    draft = planner.read_call(PlanningRequest(team="team", feature="feature", key="key", body=body))
    plan = msgspec.structs.replace(planner.begin_plan(draft, 1), joined=False)
    plan_result = planner.plan_call(draft, to, plan, layout, 1_000.0)
    planner.adopt_plan(draft, plan_result.plan)
    planner.settle_call(plan_result, Usage(input=100))
    return plan_result


@pytest.mark.parametrize("name", LEFT)
def test_a_body_that_cannot_be_planned_says_why_soon(name: str) -> None:
    planner = Planner(b"secret", share=0.0)
    started = thread_time()

    if name != "8 MB and more":  # those never get here
        with pytest.raises(Unplannable) as refused:
            plan_and_settle(planner, LEFT[name], way("openai-breakpoint"))
        assert str(refused.value)
    assert thread_time() - started < PATIENCE


@pytest.mark.parametrize("name", PLANNED)
def test_a_planned_body_is_kept_whole_and_planned_soon(name: str) -> None:
    for regime, layout in (("anthropic-breakpoint", None), ("openai-breakpoint", GONE)):
        planner, lessons = Planner(b"secret", share=0.0), LayoutLearner()
        started = thread_time()
        planned = plan_and_settle(planner, PLANNED[name], way(regime), layout)
        lessons.observe(planned)
        lessons.proposal(planned)

        assert thread_time() - started < PATIENCE
        assert len(planned.notes) <= 16
        lossless(PLANNED[name], planned.body)


def words(body: bytes) -> str:
    """All text of a prompt whose messages hold only text."""
    contents = [message["content"] for message in orjson.loads(body)["messages"]]
    texts = [content if isinstance(content, list) else [{"text": content}] for content in contents]
    return "".join(part["text"] for parts in texts for part in parts)


def lossless(before: bytes, after: bytes) -> None:
    """Pass a body that lost nothing; what a JSON reader refuses must still stand in it."""
    if len(before) > 2**20:
        assert words(before) == words(after)
        return
    try:
        orjson.loads(before)
    except orjson.JSONDecodeError:
        assert b'"x":"\xff"' in after or b"1e999" in after
    else:
        if before != after and b'"tools":[1' not in before and b'"name":"b","name"' not in before:
            assert_nothing_lost(before, after)
    assert (b'"name":"b","name":"a"' in before) == (b'"name":"b","name":"a"' in after)


def test_a_layout_whose_lines_are_gone_says_so() -> None:
    planned = plan_and_settle(
        Planner(b"secret", share=0.0), body_with_rules(RULES), way("openai-interval"), GONE
    )

    assert planned.notes[0] == "Detail 1 stays: the line before it is gone"


def test_a_poisoned_feature_takes_bounded_time_and_memory() -> None:
    planner, lessons = (
        Planner(b"secret", share=0.0, max_bytes=MAX_BYTES),
        LayoutLearner(max_bytes=MAX_BYTES),
    )
    to = way("openai-breakpoint")
    started = thread_time()
    for number in range(600):
        lines = "\n".join(f"Rule {number}, line {line} says so." for line in range(60))
        planned = plan_and_settle(planner, body_with_rules(lines, user=str(number)), to)
        lessons.observe(planned)
        assert number % 25 or lessons.proposal(planned) is None

    (((_, learner),),) = (learners.items() for learners in lessons._known.values())
    assert planner.memory.trim("team").size_bytes <= MAX_BYTES
    assert len(learner.samples.conversations) <= 32
    assert thread_time() - started < 2 * PATIENCE


def test_features_without_number_are_forgotten() -> None:
    planner, lessons = (
        Planner(b"secret", share=0.0, max_bytes=MAX_BYTES),
        LayoutLearner(max_bytes=MAX_BYTES),
    )
    to = way("openai-interval")
    for number in range(300):
        request = PlanningRequest(
            team="team", feature=str(number), key="key", body=body_with_rules(RULES)
        )
        draft = planner.read_call(request)
        planned = planner.plan_call(draft, to, planner.begin_plan(draft, 0), None, float(number))
        planner.adopt_plan(draft, planned.plan)
        planner.settle_call(planned, Usage(input=100))
        lessons.observe(planned)

    assert 0 < len(lessons) < 150
    assert planner.memory.trim("team").size_bytes <= MAX_BYTES


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefixHarness]:
    with prefix_harness(tmp_path_factory.mktemp("bad")) as running:
        running.plan("planned", PlanningMode.AUTO)
        yield running


def answer_and_upstream_body(
    harness: PrefixHarness, body: bytes, feature: str
) -> tuple[httpx.Response, bytes | None]:
    """The answer, and what arrived upstream; None where nothing did."""
    harness.lab.exchanges.clear()
    answer = harness.client.post(
        f"{harness.url}/chat/completions",
        content=body,
        headers={
            "authorization": f"Bearer {harness.key}",
            "content-type": "application/json",
            "x-thriftgate-feature": feature,
        },
    )
    return answer, harness.lab.exchanges[-1].body if harness.lab.exchanges else None


@pytest.mark.parametrize("name", sorted(LEFT.keys() - LONG))
def test_the_gateway_sends_as_it_came_what_cannot_be_planned(
    harness: PrefixHarness, name: str
) -> None:
    plain, came = answer_and_upstream_body(harness, LEFT[name], "plain")
    answer, body_sent = answer_and_upstream_body(harness, LEFT[name], "planned")

    assert answer.status_code == plain.status_code
    assert body_sent == came
    if body_sent is not None and answer.status_code == 200:
        assert answer.headers["x-thriftgate-notes"]


@pytest.mark.parametrize("name", [name for name in PLANNED if "MB" not in name])
def test_the_gateway_loses_nothing_of_what_is_planned(harness: PrefixHarness, name: str) -> None:
    plain, came = answer_and_upstream_body(harness, PLANNED[name], "plain")
    answer, body_sent = answer_and_upstream_body(harness, PLANNED[name], "planned")

    assert answer.status_code == plain.status_code
    assert (body_sent is None) == (came is None)
    if body_sent is not None and came is not None:
        lossless(PLANNED[name] if b"<tg:" in PLANNED[name] else came, body_sent)
