import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.chat_validation import chat_faults
from tests.compaction.reading.conversations import (
    assistant,
    conversations,
    raws,
    result,
    system,
    tool_calls,
    user,
)

MADE = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}
TOLD = {"role": "function", "name": "f", "content": "done"}


@pytest.mark.parametrize(
    "chat",
    [
        [system(), user()],
        [user(), tool_calls("a", "b"), result("b"), result("a"), user()],
        [user(), tool_calls("a"), result("a", ""), tool_calls("a"), result("a")],
        [user(), MADE, TOLD],
        [user(), {"role": "assistant", "audio": {"id": "x"}}, user()],
        [user(), {"role": "assistant", "refusal": "no"}, user()],
        [user(), {"role": "developer", "content": [{"type": "text", "text": "a"}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}],
    ],
)
def test_a_sound_conversation_has_no_faults(chat):
    assert chat_faults(raws(chat)) == ()


@pytest.mark.parametrize(
    ("chat", "fault"),
    [
        ([], "no message of a user"),
        ([system()], "no message of a user"),
        ([assistant(), user()], "the assistant speaks first"),
        ([user(), assistant()], "the assistant speaks last"),
        ([user(), result("a")], "messages[1] answers no call that waits for a result"),
        ([user(), TOLD], "messages[1] answers no call that waits for a result"),
        (
            [user(), tool_calls("a"), result("a"), result("a")],
            "messages[3] answers no call that waits for a result",
        ),
        (
            [user(), tool_calls("a"), user(), assistant("b"), user()],
            "messages[2] comes before the result of 'a' in messages[1]",
        ),
        ([user(), tool_calls("a", "a"), result("a")], "messages[1] makes two calls of one id"),
        ([{"role": "narrator", "content": "a"}], "messages[0] has a role that no chat has"),
        ([user("")], "messages[0] says nothing, or a part of it does"),
        (
            [{"role": "user", "content": [{"type": "text", "text": ""}]}],
            "messages[0] says nothing, or a part of it does",
        ),
        ([{"role": "user"}], "messages[0] says nothing, or a part of it does"),
        ([user(), {"content": "a"}], "messages[1] is no message"),
        ([user(), {"role": "user", "content": 1}], "messages[1] is no message"),
    ],
)
def test_faults_that_a_provider_would_refuse_are_named(chat, fault):
    assert chat_faults(raws(chat)) == (fault,)


def test_a_call_without_a_result_is_a_fault_at_the_end_too():
    faults = chat_faults(raws([user(), tool_calls("a")]))

    assert faults == ("no result of 'a' in messages[1]", "the assistant speaks last")


def test_faults_of_the_callers_own_messages_are_not_counted():
    came = raws([system(), assistant(), user(""), assistant()])

    assert len(chat_faults(came)) == 3
    assert chat_faults(came, came) == ()
    assert chat_faults(came[1:], came) == ()
    assert chat_faults([came[1], *raws([user("")])], came) == ()
    assert chat_faults([came[3]], raws([user()])) == (
        "the assistant speaks first",
        "the assistant speaks last",
    )
    assert chat_faults(raws([user(), assistant()]), [b"[]", b"[]"]) == (
        "the assistant speaks last",
    )


@pytest.mark.slow
@given(conversations())
def test_conversations_that_any_provider_takes_have_none(chat):
    assert chat_faults(raws(chat)) == ()


@pytest.mark.slow
@given(conversations(), st.data())
def test_a_result_that_goes_missing_is_seen(chat, data):
    results = [index for index, one in enumerate(chat) if one["role"] == "tool"]
    if results:
        del chat[data.draw(st.sampled_from(results))]

    assert bool(chat_faults(raws(chat))) == bool(results)


@given(st.lists(st.binary(max_size=30), max_size=3))
def test_any_bytes_have_faults(chunks):
    assert chat_faults(chunks)
