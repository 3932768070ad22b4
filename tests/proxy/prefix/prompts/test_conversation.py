"""The conversation that a call belongs to, and the chain of its messages."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.message_cache import read_message
from proxy.prefix.prompts.conversation import ConversationChain, LatestChains, conversation_chain
from proxy.prefix.prompts.prompt import Prompt, parse_prompt
from tests.cache_bounds import remembers_latest
from tests.proxy.prefix.sent_calls import fingerprint

WHO = ("team", "feature", "key")
SYSTEM = {"role": "system", "content": "You help. It is noon."}
ASKED = {"role": "user", "content": "What is there?"}
ANSWER = {"role": "assistant", "content": "A house."}
MARK = {"type": "ephemeral"}


def prompt(*messages: object, **fields: Any) -> Prompt:
    return parse_prompt(orjson.dumps({"messages": messages, **fields}))


SAID = st.lists(st.sampled_from([bytes([one]) * 16 for one in range(3)]), max_size=9)


@given(calls=st.lists(SAID, max_size=9))
def test_chains_continued_from_the_latest_call_are_those_of_the_whole_call(calls):
    latest = LatestChains()
    chains = [chain_of_said(latest, call) for call in calls]

    assert chains == [chain_of_said(LatestChains(), call) for call in calls]


def chain_of_said(
    latest: LatestChains, texts: list[bytes], base: bytes = b"base"
) -> ConversationChain:
    """The chain of messages that say this; but for the first of three sayings they are answers."""
    roles = ["assistant" if says[0] else "user" for says in texts]
    return latest.chain(base, tuple(texts), roles)


def test_values_continued_from_the_latest_call_tell_callers_apart():
    latest = LatestChains()
    first, other = (chain_of_said(latest, [b"said"] * 5, base) for base in (b"one", b"two"))

    assert set(first.values).isdisjoint(other.values)


def chain_of(prompt: Prompt, who: tuple[str, ...] = WHO) -> ConversationChain:
    return conversation_chain(
        prompt, [read_message(fingerprint, raw) for raw in prompt.messages], who, fingerprint
    )


def of(*messages: object, who: tuple[str, ...] = WHO, **fields: Any) -> bytes:
    """The value of a whole call."""
    return chain_of(prompt(*messages, **fields), who).whole


def items(*input_: object) -> ConversationChain:
    return chain_of(parse_prompt(orjson.dumps({"input": input_, "store": False})))


def numbered_chain(*roles: str) -> ConversationChain:
    """The chain of messages that say their place."""
    return chain_of(
        prompt(*({"role": role, "content": str(index)} for index, role in enumerate(roles)))
    )


def test_a_chain_grows_as_the_conversation_does():
    before, after = chain_of(prompt(ASKED)), chain_of(prompt(ASKED, ANSWER, ASKED))

    assert after.values[:2] == before.values
    assert after.holds(before.whole, 1)
    assert not before.holds(after.whole, 3)
    assert len({*after.values}) == 4


def test_leading_instructions_do_not_change_the_chain_and_later_ones_do():
    later = {"role": "developer", "content": "You help. It is one."}

    assert of(SYSTEM, ASKED) == of(later, SYSTEM, ASKED) == of(ASKED)
    assert of(ASKED, SYSTEM) != of(ASKED, later)


def test_the_beginning_of_a_chain_ends_before_its_first_answer():
    assert chain_of(prompt(ASKED, ASKED, ANSWER, ASKED)).beginning == of(ASKED, ASKED)
    assert chain_of(prompt(ASKED)).beginning == of(ASKED)
    assert chain_of(prompt(ANSWER, ASKED, ANSWER, ASKED)).beginning == of(ANSWER, ASKED)


@pytest.mark.parametrize(
    "other",
    [
        {"role": "user", "content": [{"type": "text", "text": "What is there?"}]},
        {
            "role": "user",
            "content": [{"type": "text", "text": "What is there?", "cache_control": MARK}],
        },
        {"role": "user", "content": "What is there?", "cache_control": MARK},
        {"content": "What is there?", "role": "user"},
        {"role": "user", "content": "What is there?", "name": None},
    ],
)
def test_moved_marks_and_other_forms_do_not_change_the_chain(other: object):
    assert of(other) == of(ASKED)


def test_a_mark_on_a_picture_does_not_change_the_chain():
    picture = {"type": "image_url", "image_url": {"url": "https://example.test/a.png"}}
    marked = picture | {"prompt_cache_breakpoint": {"mode": "explicit"}}

    assert of({"role": "user", "content": [picture]}) == of({"role": "user", "content": [marked]})


def test_the_order_of_keys_in_a_tool_call_does_not_change_the_chain():
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}

    assert of({"role": "assistant", "content": None, "tool_calls": [call]}) == of(
        {"tool_calls": [call], "role": "assistant"}
    )
    assert of({"role": "tool", "content": "3", "tool_call_id": "1"}) == of(
        {"role": "tool", "tool_call_id": "1", "content": "3"}
    )


@pytest.mark.parametrize(
    "thought",
    [
        ANSWER | {"reasoning_content": "Let me see."},
        ANSWER | {"reasoning": "Let me see.", "reasoning_details": [{"text": "Let me see."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Let me see.", "signature": "s"},
                {"type": "text", "text": "A house."},
            ],
        },
    ],
)
def test_dropped_reasoning_does_not_change_the_chain(thought: object):
    assert of(ASKED, thought, ASKED) == of(ASKED, ANSWER, ASKED)


@pytest.mark.parametrize(
    "other",
    [
        {"role": "user", "content": "What was there?"},
        {"role": "user", "content": "What is there?", "name": "Bo"},
        {"role": "assistant", "content": "What is there?"},
        {"role": "user", "content": [{"type": "text", "text": "What is "}, {"text": "there?"}]},
        {"role": "user", "content": None},
    ],
)
def test_a_changed_message_changes_the_conversation_chain(other: object):
    assert of(SYSTEM, other) != of(SYSTEM, ASKED)
    assert of(ASKED, ANSWER, other) != of(ASKED, ANSWER, ASKED)


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt_cache_key": "k"},
        {"user": "u"},
        {"session_id": "s"},
        {"safety_identifier": "s"},
        {"metadata": {"conversation_id": "c"}},
        {"metadata": {"thread_id": "c"}},
        {"metadata": {"user_id": '{"device_id":"d","session_id":"s"}'}},
        {"client_metadata": {"session_id": "s"}},
        {"client_metadata": {"thread-id": "t"}},
    ],
)
def test_the_callers_names_change_the_chain(fields: dict[str, Any]):
    assert of(ASKED, **fields) != of(ASKED)


@pytest.mark.parametrize(
    "fields",
    [
        {"user": None, "session_id": None, "metadata": None, "client_metadata": None},
        {"metadata": {"user_id": None}},
        {"model": "m", "metadata": {"request_id": "1"}, "client_metadata": {"turn_id": "1"}},
        {"metadata": [1]},
    ],
)
def test_null_names_other_fields_and_odd_metadata_do_not_change_the_chain(fields: dict[str, Any]):
    assert of(ASKED, **fields) == of(ASKED)


def test_the_owner_of_a_conversation_changes_the_chain():
    assert of(ASKED, who=("te", "amfeature", "key")) != of(ASKED)
    assert of(ASKED, who=(*WHO, "header")) != of(ASKED)


def test_a_name_that_is_no_unicode_is_one_all_the_same():
    assert of(ASKED, who=(*WHO, "\udcff")) != of(ASKED)


def test_a_chain_without_messages_stands_for_the_caller():
    assert of(SYSTEM) == of() != of(SYSTEM, who=("other",))


def test_items_of_the_assistant_that_follow_each_other_are_one_answer():
    user = {"role": "user", "content": [{"type": "input_text", "text": "Well?"}]}
    call = {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"}
    prompt = items(
        user,
        {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        call,
        {"type": "function_call_output", "call_id": "1", "output": "3"},
    )

    assert prompt.answers == ((1, 3),)
    assert len(prompt.said) == 4


def test_values_before_a_place_leave_out_up_to_three_last_messages():
    talk = numbered_chain("user", "user", "assistant", "user", "tool", "user")

    assert [*talk.places] == [2]
    assert [*talk.values_before(6)] == [talk.values[5], talk.values[4]]
    assert [*talk.values_before(2)] == [talk.values[1]]
    assert [*numbered_chain(*["user"] * 6).values_before(6)] == [
        *numbered_chain(*["user"] * 5).values[:2:-1]
    ]


def test_the_same_answer_has_the_same_key_where_both_began_alike():
    one = chain_of(prompt(ASKED, ANSWER, ASKED))
    changed = chain_of(prompt(ASKED, ANSWER, SYSTEM, ANSWER | {"content": "A barn."}, ASKED))
    other = chain_of(prompt(SYSTEM | {"role": "user"}, ANSWER, ASKED))
    (key,) = one.latest_answers()

    assert [*changed.latest_answers()][1] == key
    assert [*other.latest_answers()] != [key]
    assert changed.goes_on_from(b"", key)
    assert changed.goes_on_from(changed.values[3], b"")
    assert not one.goes_on_from(b"", key)


def test_candidate_values_are_bounded_and_hold_the_first_and_latest_places():
    talk = numbered_chain(*["user", "assistant"] * 500, "user")
    candidates = [*talk.candidates()]

    assert len(candidates) == 1 + 24 + 8
    assert {talk.whole, talk.values[1], talk.values[15], talk.values[999]} <= {*candidates}
    assert len({*candidates}) == len(candidates)


def test_the_latest_four_answers_of_a_call_have_keys():
    talk = numbered_chain(*["user", "assistant"] * 5, "user")

    assert len([*talk.latest_answers()]) == 4


def test_latest_chains_count_the_bytes_of_messages_before_the_last_three():
    latest = LatestChains()
    chain_of_said(latest, [b"said"] * 5)

    assert latest.indexes[0].size_bytes == 1_000 + 3 * 100


def test_values_and_keys_of_answers_have_sixteen_bytes():
    chain = chain_of(prompt(ASKED, ANSWER, ASKED))

    assert {len(value) for value in (*chain.values[1:], *chain.latest_answers())} == {16}


def test_the_latest_1024_callers_are_remembered():
    assert remembers_latest(
        lambda number: chain_of(prompt(ASKED), ("team", str(number))).values[0], 1_024
    )
