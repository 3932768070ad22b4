from dataclasses import replace
from datetime import UTC, datetime

from proxy.tools.demo.conversation import sections
from proxy.tools.demo.support import PromptOrder, SupportScript, cases, chats

NOON = datetime(2026, 11, 3, 12, 0, 7, tzinfo=UTC)
MODEL = "gpt-5.6-terra"
MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def system(chat: SupportScript, turn: int = 0, time: datetime = NOON) -> str:
    first = chat.body(turn, time, [None] * turn)["messages"][0]
    assert first["role"] == "system"
    return str(first["content"])


def test_the_first_line_is_the_time() -> None:
    chat = chats("2", MODEL)[0]
    assert system(chat).splitlines()[0] == (
        "Current date and time: Tuesday, 03 November 2026, 12:00:07 UTC"
    )


def test_two_calls_differ_before_anything_that_could_be_shared() -> None:
    chat = chats("2", MODEL)[0]
    one, other = system(chat), system(chat, time=NOON.replace(second=8))
    assert one.splitlines()[0] != other.splitlines()[0]
    assert one.splitlines()[1:] == other.splitlines()[1:]


def test_passages_stand_before_the_handbook_and_the_handbook_ends_the_prompt() -> None:
    for chat in chats("2", MODEL):
        whole = system(chat)
        assert whole.endswith(chat.handbook)
        for title in chat.case.turns[0][1]:
            assert whole.index(f"[{title}]") < whole.index(chat.handbook)


def test_each_question_finds_its_passages_among_others_in_varying_order() -> None:
    orders = set()
    for chat in chats("2", MODEL):
        for turn, (_, fitting) in enumerate(chat.case.turns):
            passages = chat._found(turn)
            assert set(fitting) <= set(passages)
            assert len(passages) == len(set(passages)) == 4
            orders.add(passages.index(fitting[0]))
    assert orders == {0, 1, 2, 3}


def test_every_passage_named_by_a_case_exists() -> None:
    passages = sections("passages.md")
    named = {title for case in cases() for _, title_names in case.turns for title in title_names}
    assert named <= passages.keys()


def test_customers_write_three_to_six_times() -> None:
    assert {len(case.turns) for case in cases()} == {3, 4, 5, 6}


def test_the_history_holds_the_real_answers() -> None:
    chat = chats("2", MODEL)[0]
    reply = {"role": "assistant", "content": "Within 28 days."}
    messages = chat.body(2, NOON, [reply, None])["messages"]
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert messages[2] == reply
    assert messages[4]["content"].startswith("Sorry")
    assert [message["content"] for message in messages[1::2]] == [
        question for question, _ in chat.case.turns[:3]
    ]


def test_each_customer_chats_once() -> None:
    sessions = chats("2", MODEL)
    assert {chat.case for chat in sessions} == set(cases())
    assert len(sessions) == len(cases())
    assert {chat.model for chat in sessions} == {MODEL}


def parts(chat: SupportScript, turn: int, time: datetime = NOON) -> list[tuple[str, str]]:
    """Role and text of each part of a prompt, in order."""
    return [
        (message["role"], part["text"])
        for message in chat.body(turn, time, [None] * turn)["messages"]
        for part in (
            [{"text": message["content"]}]
            if isinstance(message["content"], str)
            else message["content"]
        )
    ]


def test_stable_first_prompts_begin_with_the_handbook_and_hold_the_same_texts() -> None:
    for chat in chats("2", MODEL, PromptOrder.STABLE_FIRST):
        bad = replace(chat, order=PromptOrder.VARIABLE_FIRST)
        (_, handbook), (role, rest), *_ = parts(chat, 1)
        assert (handbook, role) == (chat.handbook, "system")
        assert sorted(f"{handbook}\n\n{rest}".split("\n\n")) == sorted(
            parts(bad, 1)[0][1].split("\n\n")
        )


def test_shared_prefix_prompts_extend_the_call_before_up_to_its_context() -> None:
    for chat in chats("2", MODEL, PromptOrder.SHARED_PREFIX):
        before, after = parts(chat, 1), parts(chat, 2, NOON.replace(second=8))
        assert before[-1][1].startswith("Current date and time")
        assert after[: len(before) - 1] == before[:-1]
        assert not any("Current date" in text for _, text in after[:-1])


def test_an_author_who_marks_does_so_behind_what_later_calls_repeat() -> None:
    (chat, *_) = chats("2", MODEL, PromptOrder.SHARED_PREFIX)
    body = replace(chat, marks=True).body(1, NOON, [None])
    marked = [
        part["text"]
        for message in body["messages"]
        for part in message["content"]
        if isinstance(part, dict) and MARK.items() <= part.items()
    ]

    assert marked == [chat.handbook, *(question for question, _ in chat.case.turns[:2])]
    assert body["prompt_cache_options"] == {"mode": "explicit"}
    assert "prompt_cache_options" not in chat.body(1, NOON, [None])
    assert "prompt_cache_options" not in replace(
        chat, order=PromptOrder.VARIABLE_FIRST, marks=True
    ).body(1, NOON, [None])


def test_demo_customers_come_in_an_order_of_their_seed() -> None:
    shops = [[chat.case.shop for chat in chats(seed, MODEL)] for seed in ("1", "2", "1")]
    assert shops[0] == shops[2] != shops[1]
