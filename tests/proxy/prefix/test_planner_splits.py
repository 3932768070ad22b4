"""Long texts that begin as an earlier one did are parted there, and stay parted as they were."""

from collections.abc import Sequence
from itertools import islice, pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.breakpoints.plan import ExperimentArm, Plan
from proxy.prefix.planned import Planned
from proxy.prefix.prompts.prompt import Prompt, PromptSlot
from tests.bench import no_harm_readers
from tests.examples import examples
from tests.fakes.handbook import handbook
from tests.fakes.recorded import PATHS
from tests.fakes.wire_prefix import ROUTES, PlannedBody, WireReader
from tests.proxy.prefix.planning_requests import (
    TARGETS,
    PlanningProcess,
    body,
    chat_message,
    conversation_messages,
    planning_request,
)

CLAUDE, OPENAI = TARGETS["anthropic-breakpoint"], TARGETS["openai-breakpoint"]
RULES = handbook(12, "splits").replace("\n", "\n\\n")
TAIL = handbook(4, "splits, the end")
CLOSING = "\n\nKeep to the rules.\nAnswer with one command."
WORDS = st.text(st.sampled_from('a "\\né\U0001f600\u3000\t/n'), max_size=700)


def rules_of(session: int) -> str:
    return f"{RULES}\nFolder: /work/{session}\n{TAIL}"


def plan(process: PlanningProcess, *messages: dict[str, Any], **fields: Any) -> Planned:
    return process.plan_and_settle(planning_request(body(*messages), **fields))


def first_call(process: PlanningProcess, session: int, **fields: Any) -> Planned:
    messages = conversation_messages(0, rules_of(session), f"Task {session}")
    return plan(process, *messages, **fields)


def texts(prompt: Prompt, at: int = 0) -> list[str]:
    """The texts of a message's parts."""
    content = orjson.loads(prompt.messages[at])["content"]
    return [content] if isinstance(content, str) else [part["text"] for part in content]


def test_instructions_are_parted_where_another_session_differs():
    process = PlanningProcess(CLAUDE)

    first, second = (first_call(process, session) for session in (1, 2))

    assert texts(first.prompt) == [rules_of(1)]
    stable, rest = texts(second.prompt)
    assert (stable + rest, RULES.startswith(stable)) == (rules_of(2), True)
    assert len(RULES) - len(stable) < 1_024
    slots = [block.slot for block in second.evidence.sent.blocks]
    assert slots == [PromptSlot.STABLE, PromptSlot.SEMI_STABLE, PromptSlot.VARIABLE]


def test_third_session_reads_what_the_second_stored():
    process = PlanningProcess(CLAUDE)

    reads = [first_call(process, session).evidence.expected.known for session in range(3)]

    assert reads[0] == 0
    assert reads[2] * 4 >= len(RULES) * 0.9


def test_a_call_that_is_sent_again_is_parted_as_before_also_once_its_texts_were_dropped():
    process = PlanningProcess(CLAUDE)
    first_call(process, 1)
    second = first_call(process, 2)
    again = first_call(process, 2)
    seen_texts = process.planner.memory.of(second.draft.request.team).texts
    while len(seen_texts.indexes[0]):
        seen_texts.indexes[0].drop_oldest()
    forgotten = first_call(process, 2)

    assert len(texts(second.prompt)) == 2
    assert second.body == again.body == forgotten.body
    assert len(seen_texts.indexes[0]) > 0


def instructions_in_two(session: int, *, in_parts: bool) -> list[dict[str, Any]]:
    """Rules that all sessions share, and a customer behind them in a text of its own."""
    pair = [RULES, f"You are talking to customer {session}."]
    if in_parts:
        return [chat_message("system", [{"type": "text", "text": words} for words in pair])]
    return [chat_message("system", words) for words in pair]


@pytest.mark.parametrize("target", [CLAUDE, OPENAI], ids=["claude", "openai"])
@pytest.mark.parametrize("in_parts", [True, False], ids=["in parts", "in messages"])
def test_second_session_reads_the_longest_instructions_before_text_of_its_own(target, in_parts):
    process = PlanningProcess(target)

    first, second = (
        plan(process, *instructions_in_two(session, in_parts=in_parts), chat_message("user", "Hi."))
        for session in (1, 2)
    )

    slots = [block.slot for block in first.evidence.sent.blocks]
    assert slots == [PromptSlot.STABLE, PromptSlot.SEMI_STABLE, PromptSlot.VARIABLE]
    assert second.evidence.expected.known * 4 >= len(RULES) * 0.9
    assert [
        words
        for index in range(len(second.prompt.messages))
        for words in texts(second.prompt, index)
    ] == [RULES, "You are talking to customer 2.", "Hi."]


def test_short_text_before_the_longest_instructions_stays_stable():
    process = PlanningProcess(CLAUDE)
    messages = [chat_message("system", "Be kind."), chat_message("system", RULES)]

    planned = plan(process, *messages, chat_message("user", "Hi."))

    slots = [block.slot for block in planned.evidence.sent.blocks]
    assert slots == [PromptSlot.STABLE, PromptSlot.STABLE, PromptSlot.VARIABLE]


def test_session_keeps_its_instructions_as_it_began_them():
    plans: dict[str, bytes] = {}
    process, other = (PlanningProcess(CLAUDE, plans=plans) for _ in range(2))
    for session in (1, 2):
        first_call(process, session)
    later = [conversation_messages(turns, rules_of(2), "Task 2") for turns in (0, 1, 2)]
    parted = texts(plan(process, *later[0]).prompt)

    assert len(parted) == 2
    assert texts(plan(process, *later[1]).prompt) == parted
    assert texts(plan(other, *later[2]).prompt) == parted


@pytest.mark.parametrize(
    "fields", [{"feature": "another"}, {"team": "another"}], ids=["feature", "team"]
)
def test_texts_of_others_are_not_compared(fields: dict[str, str]):
    process = PlanningProcess(CLAUDE)
    first_call(process, 1)

    assert texts(first_call(process, 2, **fields).prompt) == [rules_of(2)]


def test_prompt_that_shares_little_is_not_split():
    process = PlanningProcess(CLAUDE)
    plan(process, *conversation_messages(0, RULES[:600] + handbook(30, "one")))
    other = RULES[:600] + handbook(30, "two")

    assert texts(plan(process, *conversation_messages(0, other)).prompt) == [other]


@pytest.mark.parametrize(
    "regime", sorted(set(TARGETS) - {"anthropic-breakpoint", "openai-breakpoint"})
)
def test_caches_without_marks_get_texts_unmodified(regime: str):
    process = PlanningProcess(TARGETS[regime])

    for session in (1, 2):
        assert texts(first_call(process, session).prompt) == [rules_of(session)]


def test_call_without_marks_is_sent_unmodified():
    process = PlanningProcess(CLAUDE, stake=0.0)
    first_call(process, 1)
    second = first_call(process, 2)

    assert second.body is second.draft.request.body
    assert second.direct is None


def test_control_arm_is_sent_unmodified():
    process = PlanningProcess(CLAUDE, share=1.0)
    first_call(process, 1)
    second = first_call(process, 2)

    assert second.plan == Plan(arm=ExperimentArm.CONTROL, onward=second.plan.onward)
    assert second.body is second.draft.request.body


def test_callers_mark_stays_at_the_end_of_its_text():
    process = PlanningProcess(CLAUDE)
    mark = {"cache_control": {"type": "ephemeral"}}
    for session in (1, 2):
        part = {"type": "text", "text": rules_of(session), **mark}
        system = chat_message("system", [part])
        last = plan(process, system, chat_message("user", f"Task {session}"))
    parts = orjson.loads(last.prompt.messages[0])["content"]

    assert ["cache_control" in part for part in parts] == [False, True]
    assert last.evidence.sent.marks.keys() >= {1}


def pieces_of(steps: Sequence[str], **fields: Any) -> list[list[str]]:
    """The blocks of each call of a message that grows."""
    process = PlanningProcess(CLAUDE)
    every = [plan(process, chat_message("user", step), **fields) for step in steps]
    return [texts(planned.prompt) for planned in every]


def test_growing_message_is_parted_where_the_call_before_ended():
    steps = [RULES, f"{RULES}\nobserved", f"{RULES}\nobserved\nand more"]

    assert pieces_of(steps) == [
        [RULES],
        [RULES, "\nobserved"],
        [RULES, "\nobserved", "\nand more"],
    ]


def test_growing_message_is_parted_before_its_closing_words():
    texts = [
        f"{RULES}\n" + "".join(f"step {index}: done\n" for index in range(count))
        for count in range(4)
    ]
    pieces = pieces_of([text + CLOSING for text in texts])

    assert ["".join(piece[:-1]) for piece in pieces[1:]] == texts[1:]
    assert all(piece[-1] == CLOSING for piece in pieces[1:])
    assert all(now[: len(before) - 1] == before[:-1] for before, now in pairwise(pieces[1:]))


@pytest.mark.parametrize("closing", ["", CLOSING], ids=["plain", "closing words"])
def test_growing_message_is_read_from_the_marks_of_the_call_before(closing: str):
    process = PlanningProcess(OPENAI)
    texts = [
        RULES + "".join(f"\nstep {index}: {TAIL[:900]}" for index in range(count))
        for count in range(6)
    ]
    calls = [plan(process, chat_message("user", text + closing)) for text in texts]
    sent = calls[-1].evidence.sent

    *_, before, last, _ = range(len(sent.blocks))
    assert [*sent.marks] == [before, last]
    assert calls[-1].evidence.expected.tokens * 4 >= len(texts[-3])


@pytest.mark.parametrize("target", [CLAUDE, OPENAI], ids=["claude", "openai"])
def test_rules_in_a_user_message_are_read_by_a_call_with_another_task(target):
    process = PlanningProcess(target)
    tasks = [chat_message("user", f"{RULES}\nTask {task}: {TAIL[task:]}") for task in range(8)]
    calls = [plan(process, task) for task in tasks]

    shared, last = texts(calls[-1].prompt)
    assert (RULES.startswith(shared), last.endswith(TAIL[7:])) == (True, True)
    assert 0 in calls[-1].evidence.sent.marks
    assert calls[-1].evidence.expected.tokens * 4 >= len(RULES) * 0.9


MARK = {"cache_control": {"type": "ephemeral"}}
FORMS = {
    "chat": lambda text: {"messages": [chat_message("user", [text_part(text)])]},
    "Responses": lambda text: {"input": text},
    "Responses items": lambda text: {
        "input": [chat_message("user", [text_part(text, type="input_text")])]
    },
    "Messages": lambda text: {"messages": [chat_message("user", [text_part(text, **MARK)])]},
}


def text_part(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


@pytest.mark.parametrize("form", FORMS)
def test_growing_message_is_parted_and_marked_in_every_api(form: str):
    is_native = form == "Messages"
    process = PlanningProcess(CLAUDE if is_native else OPENAI)
    texts = [f"{RULES}\nstep {'and more ' * count}" for count in (0, 80, 160)]
    for text in texts:
        raw = orjson.dumps({"model": "any", **FORMS[form](text)})
        last = process.plan_and_settle(planning_request(raw, is_native=is_native))
    sent = orjson.loads(last.body)
    (message,) = sent.get("input") or sent["messages"]

    assert "".join(part["text"] for part in message["content"]) == texts[-1]
    assert len(message["content"]) == len(texts)
    assert any(len(part) == 3 for part in message["content"])
    assert last.evidence.expected.tokens * 4 >= len(RULES) * 0.9


def test_growing_message_gets_no_marks_in_the_callers_explicit_mode():
    process = PlanningProcess(OPENAI)
    for step in (RULES, f"{RULES}\nobserved"):
        last = process.plan_and_settle(
            planning_request(
                body(chat_message("user", step), prompt_cache_options={"mode": "explicit"})
            )
        )

    assert last.body is last.draft.request.body


def test_growing_message_is_one_conversation_and_another_one_is_not():
    process = PlanningProcess(CLAUDE)
    steps = [RULES + CLOSING, f"{RULES}\nobserved{CLOSING}", f"{RULES}\nobserved\nmore{CLOSING}"]
    other = f"{RULES}\nAnother question, and a longer one, that all these words belong to."
    names = [
        plan(process, chat_message("user", step)).draft.conversation for step in (*steps, other)
    ]
    elsewhere = plan(process, chat_message("user", steps[-1]), key="key_2").draft.conversation

    assert len(set(names[:3])) == 1
    assert len({names[0], names[3], elsewhere}) == 3


def test_conversation_goes_on_parted_once_its_growing_message_is_answered():
    process = PlanningProcess(CLAUDE)
    for step in (RULES, f"{RULES}\nobserved"):
        last = plan(process, chat_message("user", step))
    answered = [chat_message("user", f"{RULES}\nobserved"), chat_message("assistant", "Done.")]
    later = plan(process, *answered, chat_message("user", "And now?"))

    assert later.draft.turns == 1
    assert texts(later.prompt) == texts(last.prompt) == [RULES, "\nobserved"]


@examples(25)
@given(
    st.lists(WORDS, min_size=1, max_size=5),
    st.sampled_from([b":", b": "]),
    st.sampled_from([RULES, TAIL * 3]),
)
def test_blocks_join_to_the_text_and_each_call_extends_the_one_before(
    added: list[str], colon: bytes, start: str
):
    process, steps, pieces = PlanningProcess(CLAUDE), [start], list[list[str]]()
    for words in added:
        steps.append(f"{steps[-1]}\nsaid {words}")
    for step in steps:
        raw = body(chat_message("user", step)).replace(b":", colon, 1)
        pieces.append(texts(process.plan_and_settle(planning_request(raw)).prompt))

    assert ["".join(piece) for piece in pieces] == steps
    assert all(now[:-1] == before for before, now in pairwise(pieces))


@examples(25)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=2, max_size=5))
def test_blocks_of_any_instructions_join_to_them(ends: list[tuple[str, str]]):
    process = PlanningProcess(CLAUDE)
    for number, (line, rest) in enumerate(ends):
        rules = f"{RULES}{line}\n{TAIL}{rest}"
        parts = texts(plan(process, *conversation_messages(0, rules, f"Task {number}")).prompt)

        assert "".join(parts) == rules
        assert all(part.strip() for part in parts)


@pytest.mark.parametrize("regime", ["anthropic-breakpoint", "openai-breakpoint"])
def test_recorded_growing_messages_extend_their_own_prefix(regime: str):
    if not PATHS["lmcache"].exists():
        pytest.skip(f"no recordings at {PATHS['lmcache']}")
    reader, process, judged = WireReader(), PlanningProcess(TARGETS[regime]), 0
    for session in islice(no_harm_readers.flat(PATHS["lmcache"]), 3):
        blocks = []
        for turn in session.turns[:12]:
            planned = plan(process, *turn.body["messages"])
            sent = PlannedBody(planned.prompt.render())
            blocks.append([one.tokens for one in reader.blocks_before_tail(sent, ROUTES[regime])])
        for before, now in pairwise(blocks):
            judged += 1
            *same, last = before
            assert now[: len(same)] == same
            assert now[len(same)] in (last, last[:-1])
    assert judged > 20
