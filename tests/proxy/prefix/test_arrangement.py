"""A prompt in the order of its slots, and with its marks."""

from typing import Any

import orjson
import pytest

from proxy.prefix.arrangement import (
    arrange_prompt,
    join_texts,
    mark_prompt,
    remove_body_tags,
    unmodified_prompt,
)
from proxy.prefix.breakpoints.plan import BreakpointPolicy, Plan
from proxy.prefix.layouts.layout import Layout, LayoutMove
from proxy.prefix.layouts.order import place_pieces
from proxy.prefix.layouts.text_pieces import TextPiece
from proxy.prefix.planned import Draft
from proxy.prefix.planner import Planner
from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.prompt import Prompt, PromptSlot, parse_prompt
from tests.fakes.planned_body_check import assert_nothing_lost
from tests.proxy.prefix.planning_requests import (
    RULES,
    SECRET,
    TARGETS,
    PlanningProcess,
    body,
    chat_message,
    conversation_messages,
    planning_request,
    tool,
)

INSTRUCTIONS = "Be kind.\nThe user is Ines.\nIt is noon."
WISH = {
    (0, 0): [
        TextPiece(text="Be kind.\n", slot=PromptSlot.STABLE),
        TextPiece(text="The user is Ines.\n", slot=PromptSlot.SEMI_STABLE),
        TextPiece(text="It is noon.", slot=PromptSlot.VARIABLE),
    ]
}
ANTHROPIC, PLAIN = TARGETS["anthropic-breakpoint"], TARGETS["openai-interval"]
EVERYWHERE = BreakpointPolicy(ttl="5m", places=4)
MARK = {"cache_control": {"type": "ephemeral"}}
TAGGED = f"<tg:variable>It is noon.</tg:variable>\n{RULES}"
#: Takes all instructions for text that varies per call.
EVERYTHING = Layout(
    moves=(
        LayoutMove(before=None, after=None, slot=PromptSlot.VARIABLE, label="Detail 1", count=0),
    )
)


def prompt(*messages: object) -> Prompt:
    return parse_prompt(orjson.dumps({"model": "m", "messages": messages}))


def message(role: str, content: object) -> dict[str, object]:
    return {"role": role, "content": content}


def contents(prompt: Prompt) -> list[Any]:
    return [orjson.loads(raw)["content"] for raw in prompt.messages]


def words(prompt: Prompt) -> str:
    return "".join(
        content if isinstance(content, str) else "".join(part["text"] for part in content)
        for content in contents(prompt)
    )


@pytest.mark.parametrize("late", [True, False])
def test_texts_that_came_as_strings_are_joined_into_strings(
    late: bool,  # noqa: FBT001 - a case of the table
):
    came = prompt(message("system", INSTRUCTIONS), message("user", "Hi"))
    placed = place_pieces(came, WISH, late=late).prompt
    sent = join_texts(placed, came)

    assert any(isinstance(content, list) for content in contents(placed))
    assert all(isinstance(content, str) for content in contents(sent))
    assert words(sent) == words(placed)
    assert (sent.semi, sent.tail) == (None, placed.tail)


def test_parts_of_the_callers_own_stay_parts():
    came = prompt(
        message("system", [{"type": "text", "text": INSTRUCTIONS}]),
        message("user", [{"type": "text", "text": "Hi"}]),
    )
    placed = place_pieces(came, WISH, late=False).prompt

    assert join_texts(placed, came) is placed


def test_a_prompt_that_was_not_split_stays_as_it_is_when_joined():
    came = prompt(message("system", INSTRUCTIONS), message("user", "Hi"))

    assert join_texts(came, came) is came


def test_a_part_that_is_no_plain_text_keeps_its_message():
    came = prompt(message("system", "a"), message("user", "Hi"))
    marked = {"type": "text", "text": "b", "cache_control": {}}
    picture = {"type": "image_url", "image_url": {"url": "u"}}
    rules = message("system", [{"type": "text", "text": "a"}, marked])
    question = message("user", [{"type": "text", "text": "a"}, picture])
    sent = prompt(rules, question)
    sent = Prompt(fields=sent.fields, messages=sent.messages, semi=(0, 1), tail=1)

    assert join_texts(sent, came) is sent


def test_a_conversation_keeps_the_same_instructions_whatever_follows_them():
    picture = message("user", [{"type": "image_url", "image_url": {"url": "u"}}])
    first = prompt(message("system", INSTRUCTIONS), message("user", "Hi"))
    later = prompt(
        message("system", INSTRUCTIONS), message("user", "Hi"), message("assistant", "Ho"), picture
    )
    sent = [
        join_texts(place_pieces(came, WISH).prompt, came).messages[0] for came in (first, later)
    ]

    assert sent[0] == sent[1]


def draft(raw: bytes) -> Draft:
    return Planner(SECRET).read_call(planning_request(raw))


def read(raw: bytes) -> Any:
    return orjson.loads(raw)


def names(raw: bytes) -> list[str]:
    return [tool["function"]["name"] for tool in read(raw)["tools"]]


def test_a_prompt_that_came_in_order_stays_as_it_is():
    one = draft(body(*conversation_messages(1)))
    arranged = arrange_prompt(one, Plan(), None, late=True)

    assert arranged.prompt == one.prompt
    assert (arranged.plan, arranged.notes, arranged.given) == (Plan(), (), {})
    assert mark_prompt(one, PLAIN, arranged, BreakpointPolicy()).body is one.request.body


def test_declared_slots_move_without_a_layout():
    one = draft(body(chat_message("system", TAGGED), chat_message("user", "Well?")))
    arranged = arrange_prompt(one, Plan(), None, late=True)
    body_sent = mark_prompt(one, PLAIN, arranged, BreakpointPolicy()).body

    assert_nothing_lost(one.request.body, body_sent)
    assert arranged.prompt.tail == 1
    assert b"<tg:" not in body_sent
    assert "It is noon." in read(body_sent)["messages"][-1]["content"]


def test_text_named_by_a_layout_moves():
    one = draft(body(*conversation_messages(0)))
    arranged = arrange_prompt(one, Plan(layout=1), EVERYTHING, late=True)

    assert arranged.prompt.tail == 1
    assert arranged.prompt != one.prompt


def test_unmatched_tags_stay_and_are_noted():
    one = draft(
        body(chat_message("system", "<tg:variable>It is noon."), chat_message("user", "Well?"))
    )
    arranged = arrange_prompt(one, Plan(), None, late=True)

    assert arranged.prompt == one.prompt
    assert arranged.notes == ("tags of message 0 stay as text: variable is never closed",)


def test_variable_text_goes_into_a_users_message_without_late_system_messages():
    one = draft(body(chat_message("system", TAGGED), chat_message("user", "Well?")))
    arranged = arrange_prompt(one, Plan(), None, late=False)

    assert [message["role"] for message in read(arranged.prompt.render())["messages"]] == [
        "system",
        "user",
    ]


def test_tools_come_in_one_order_which_the_plan_remembers():
    one = draft(body(*conversation_messages(0), tools=[tool("b"), tool("a")]))
    other = draft(body(*conversation_messages(0), tools=[tool("a"), tool("b")]))
    first, second = (
        arrange_prompt(prompt_form, Plan(), None, late=True) for prompt_form in (one, other)
    )

    assert names(first.prompt.render()) == ["a", "b"]
    assert first.prompt.tools == second.prompt.tools
    assert len(first.plan.tools) == 2


def test_a_tool_that_comes_later_is_appended():
    first = arrange_prompt(
        draft(body(*conversation_messages(0), tools=[tool("b")])), Plan(), None, late=True
    )
    more = draft(body(*conversation_messages(1), tools=[tool("a"), tool("b")]))
    second = arrange_prompt(more, first.plan, None, late=True)

    assert names(second.prompt.render()) == ["b", "a"]
    assert second.plan.tools[:1] == first.plan.tools


def test_tools_of_a_conversation_met_midway_stay_where_they_were():
    one = draft(body(*conversation_messages(2), tools=[tool("b"), tool("a")]))
    arranged = arrange_prompt(one, Plan(joined=True), None, late=True)

    assert arranged.prompt == one.prompt
    assert arranged.plan.tools == ()


def test_tools_held_in_place_by_a_mark_are_noted():
    one = draft(body(*conversation_messages(0), tools=[tool("b", **MARK), tool("a")]))
    arranged = arrange_prompt(one, Plan(), None, late=True)

    assert names(arranged.prompt.render()) == ["b", "a"]
    assert arranged.notes == ("tools keep their order: the caller's marks stand among them",)


def test_marks_are_added_where_the_policy_wants_them():
    one = draft(body(*conversation_messages(1)))
    marked = mark_prompt(one, ANTHROPIC, arrange_prompt(one, Plan(), None, late=True), EVERYWHERE)

    assert_nothing_lost(one.request.body, marked.body)
    assert set(marked.marks.values()) == {"5m"}
    assert marked.body.count(b'"cache_control"') == len(marked.marks) == 3
    assert b"cache_control" not in marked.prompt.render()


def test_the_callers_own_marks_stay_and_count():
    rules = [{"type": "text", "text": RULES, **MARK}]
    one = draft(body(chat_message("system", rules), *conversation_messages(1)[1:]))
    arranged = arrange_prompt(one, Plan(), None, late=True)
    marked = mark_prompt(one, ANTHROPIC, arranged, EVERYWHERE)

    assert_nothing_lost(one.request.body, marked.body)
    assert set(arranged.given) == {0}
    assert 0 in marked.marks
    assert len(marked.marks) == 3


def test_marks_without_room_are_noted():
    parts = [{"type": "text", "text": f"{n} {RULES}", **MARK} for n in range(4)]
    one = draft(body(chat_message("system", parts), *conversation_messages(1)[1:]))
    marked = mark_prompt(one, ANTHROPIC, arrange_prompt(one, Plan(), None, late=True), EVERYWHERE)

    assert marked.body is one.request.body
    assert any("marks are in use" in note for note in marked.notes)


def test_marks_that_share_a_message_each_take_room():
    parts = [{"type": "text", "text": f"{n} {RULES}", **MARK} for n in range(4)]
    one = draft(body(chat_message("system", RULES), chat_message("user", parts)))
    marked = mark_prompt(one, ANTHROPIC, arrange_prompt(one, Plan(), None, late=True), EVERYWHERE)

    assert marked.body is one.request.body


def test_behind_a_mark_of_five_minutes_none_lives_for_an_hour():
    rules = [{"type": "text", "text": RULES, **MARK}]
    one = draft(body(chat_message("system", rules), *conversation_messages(1)[1:]))
    marked = mark_prompt(
        one,
        ANTHROPIC,
        arrange_prompt(one, Plan(), None, late=True),
        BreakpointPolicy(ttl="1h", places=4),
    )

    assert set(marked.marks.values()) == {"5m"}
    assert b'"1h"' not in marked.body


def test_where_a_cache_takes_no_marks_what_was_a_text_is_sent_as_one():
    rules = f"<tg:semi-stable>Ines asks.</tg:semi-stable>\n{RULES}"
    one = draft(body(chat_message("system", rules), chat_message("user", "Well?")))
    arranged = arrange_prompt(one, Plan(), None, late=True)
    plain, marked = (
        read(mark_prompt(one, way, arranged, BreakpointPolicy()).body)["messages"][0]["content"]
        for way in (PLAIN, ANTHROPIC)
    )

    assert plain == "".join(part["text"] for part in marked)


def test_an_unmodified_prompt_is_the_callers_own_bytes():
    one = draft(
        body(
            chat_message("system", "Rules"),
            chat_message("user", "Well?"),
            tools=[tool("b", **MARK)],
        )
    )

    assert unmodified_prompt(one, Plan()).prompt == one.prompt


def test_tags_reach_no_model_even_where_nothing_is_planned():
    request = body(
        chat_message("system", TAGGED), chat_message("user", "Well?"), tools=[tool("b", **MARK)]
    )
    unmodified = unmodified_prompt(draft(request), Plan())

    assert b"<tg:" in request
    assert remove_body_tags(request) == unmodified.prompt.render()
    assert b"<tg:" not in remove_body_tags(request)
    assert set(unmodified.given) == {0}
    assert len(unmodified.blocks) == 3


@pytest.mark.parametrize(
    "tagged",
    [
        b"<tg:stable>",
        b'{"messages":[{"role":"user","content":"<tg:stable>never closed"}]}',
        b'{"messages":[{"role":"user","content":"no tags"}]}',
    ],
)
def test_where_no_tag_can_be_taken_off_the_body_stays(tagged):
    assert remove_body_tags(tagged) is tagged


@pytest.mark.parametrize(
    "arrange", [unmodified_prompt, lambda one, plan: arrange_prompt(one, plan, None, late=True)]
)
def test_a_message_that_cannot_be_read_is_left_to_its_upstream(arrange):
    one = draft(body(chat_message("system", 7), chat_message("user", "Well?")))

    with pytest.raises(Unplannable):
        arrange(one, Plan())


@pytest.mark.parametrize(
    ("policy", "fields", "explicit"),
    [
        (BreakpointPolicy(explicit=True), {}, True),
        (BreakpointPolicy(explicit=True), {"prompt_cache_retention": "24h"}, False),
        (BreakpointPolicy(explicit=True), {"prompt_cache_options": {"mode": "implicit"}}, False),
        (BreakpointPolicy(), {"prompt_cache_options": {"mode": "explicit"}}, True),
    ],
)
def test_the_predicted_cache_mode_is_the_one_that_is_sent(
    policy: BreakpointPolicy, fields: dict[str, object], *, explicit: bool
):
    one = draft(body(*conversation_messages(0), **fields))
    marked = mark_prompt(
        one, TARGETS["openai-breakpoint"], arrange_prompt(one, Plan(), None, late=True), policy
    )

    assert marked.explicit is explicit
    options = read(marked.body).get("prompt_cache_options", {})
    assert (options.get("mode") == "explicit") is explicit


@pytest.mark.parametrize(
    "fields",
    [
        {"previous_response_id": "resp_1", "input": "Well?"},
        {"previous_response_id": "resp_1"},
        {"conversation": {"id": "conv_1"}, "input": "Well?"},
        {"prompt": {"id": "pmpt_1"}, "input": [chat_message("user", "Well?")]},
        {"input": [{"type": "item_reference", "id": "msg_1"}, chat_message("user", "Well?")]},
        {"input": [{"id": "msg_1"}, chat_message("user", "Well?")]},
    ],
)
def test_tags_are_taken_off_a_call_that_goes_on_from_what_its_provider_keeps(
    fields: dict[str, Any],
):
    came = {"model": "any", "instructions": "<tg:semi>Be kind.</tg:semi> It is noon.", **fields}

    assert read(remove_body_tags(orjson.dumps(came))) == {
        **came,
        "instructions": "Be kind. It is noon.",
    }


def test_the_first_hundred_bytes_of_the_models_name_are_remembered():
    raw = body(chat_message("user", "Hi"), model="m" * 200)
    planned = PlanningProcess(PLAIN).plan(planning_request(raw))

    assert planned.evidence.sent.asked_model == b'"' + b"m" * 99
