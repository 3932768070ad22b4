from collections.abc import Iterator, Sequence

import msgspec
import orjson
import pytest

from compaction.compact import CompactedChat, ConversationContext, compact
from compaction.cost_model import CompactionReason
from compaction.facts.fact import FactKind
from compaction.memory import CompactionMemory
from compaction.policy import CompactionMode, CompactionPolicy, RelativePrices
from compaction.reading.chat_validation import chat_faults
from compaction.reading.message import CannotCompactError
from tests.fakes.chat_messages import (
    assistant,
    client_requests,
    parallel_tool_calls,
    system,
    tool_call_and_result,
    user,
)

WARM = CompactionPolicy(prices=RelativePrices(read=0.1, write=1.25), least=500)
ONCE = CompactionPolicy(force=True, once=True)
_POLITE = (
    "I have looked at all of it with great care for you, and everything is just as it should be, "
    "so there is nothing that you would have to do now. It was a pleasure to be of help with this, "
    "and I am of course here for whatever else may come to your mind today or on any other day. "
) * 3


def support(turns: int, extra: int = 8) -> list[bytes]:
    """A customer whose bookings are looked up one after the other."""
    chat = [system("You help with bookings. Never promise refunds. " * 4)]
    for turn in range(turns):
        record = {
            "id": f"BK{turn:04}X",
            "user": f"ana_ruiz_{turn * 7 + 1000}",
            "notes": [{"at": f"2026-03-{day + 1:02}", "fee": day * 10 + turn, "open": True}
                      for day in range(extra)],
        }  # fmt: skip
        chat += [
            user(f"Please look at booking BK{turn:04}X."),
            *tool_call_and_result("get_booking", {"id": f"BK{turn:04}X"}, record, f"c{turn}"),
            assistant(f"Booking number {turn} is fine. " + _POLITE),
        ]
    return [*chat, user("Thank you, that is all.")]


def agent(steps: int, lines: int = 120) -> list[bytes]:
    """One wish, and an agent that reads file after file."""
    chat = [system("You are a careful engineer."), user("Mend the parser in src/parser.py.")]
    for step in range(steps):
        text = "\n".join(f"{n}: def read_{step}_{n}(text): return text" for n in range(lines))
        chat += tool_call_and_result(
            "read_file", {"path": f"src/module_{step}.py"}, text, f"c{step}"
        )
    return chat


def compact_calls(
    raws: list[bytes], policy: CompactionPolicy, memory: CompactionMemory | None = None
) -> Iterator[CompactedChat]:
    """Each call of a conversation, as it is sent."""
    memory = memory or CompactionMemory()
    for call in client_requests(raws):
        yield compact(call, policy, memory=memory)


def once(raws: Sequence[bytes], policy: CompactionPolicy = ONCE) -> CompactedChat:
    return compact(raws, policy, memory=CompactionMemory(), names_lost=True)


def test_a_short_conversation_is_sent_unmodified():
    raws = [system("s"), user("hello")]

    compacted = once(raws, WARM)

    assert not compacted.changed
    assert all(raw is came for raw, came in zip(compacted.messages, raws, strict=True))
    assert compacted.reason == CompactionReason.NOTHING_TO_COMPACT
    assert compacted.tokens_after == compacted.tokens_before


def test_old_turns_become_facts_and_the_last_stay():
    raws = support(12)

    compacted = once(raws)

    assert compacted.changed
    assert compacted.tokens_after < compacted.tokens_before * 0.7
    assert compacted.messages[0] is raws[0]
    assert len(compacted.messages[2:]) == 9
    assert compacted.messages[2] is raws[-9]
    assert compacted.messages[-1] is raws[-1]
    assert compacted.compacted_messages == len(raws) - 1 - 9
    assert {fact.kind for fact in compacted.facts} >= {FactKind.USER, FactKind.RECORD}
    assert not chat_faults(compacted.messages)


def test_a_compaction_that_pays_is_made_and_the_prefix_changes_only_then():
    sent_messages: tuple[bytes, ...] = ()
    resets = 0
    for compacted in compact_calls(support(80), WARM):
        if compacted.reset:
            resets += 1
        else:
            assert compacted.messages[: len(sent_messages)] == sent_messages
        assert not chat_faults(compacted.messages)
        sent_messages = compacted.messages

    assert 1 <= resets <= 8


def test_an_agent_is_compacted_within_its_only_turn_and_keeps_its_request():
    raws = agent(140, 60)

    last = list(compact_calls(raws, WARM))[-1]

    assert last.compacted_messages
    assert raws[1] in last.messages
    assert last.messages[0] is raws[0]
    assert not chat_faults(last.messages)
    assert last.tokens_after < last.tokens_before / 2


@pytest.mark.slow
def test_a_decision_depends_on_messages_and_policy_alone():
    raws = support(40)
    every = list(compact_calls(raws, WARM))

    for call, compacted in zip(client_requests(raws), every, strict=True):
        assert compact(call, WARM, memory=CompactionMemory()).messages == compacted.messages


def test_the_same_call_is_compacted_to_the_same_bytes():
    memory = CompactionMemory()
    raws = support(40)
    every = list(compact_calls(raws, WARM, memory))

    again = compact(raws, WARM, memory=memory)

    assert again == every[-1]


def test_a_memory_too_small_changes_nothing():
    raws = support(30)

    small = list(compact_calls(raws, WARM, CompactionMemory(conversations=1, max_bytes=1)))

    assert [chat.messages for chat in small] == [
        chat.messages for chat in compact_calls(raws, WARM)
    ]


def test_an_edited_conversation_goes_on_from_its_last_compaction():
    raws = support(40)
    memory = CompactionMemory()
    whole = compact(raws, WARM, memory=memory)
    edited = [*raws[:-1], user("Thank you, and the first one?")]

    again = compact(edited, WARM, memory=memory)

    assert again.segments[0] is whole.segments[0]
    assert again.messages == compact(edited, WARM, memory=CompactionMemory()).messages


def test_a_call_of_instructions_alone_leaves_nothing_behind_for_a_longer_one():
    raws, memory = [system("a"), system("b"), *support(3)], CompactionMemory()
    compact(raws[:1], WARM, memory=memory)

    assert compact(raws, WARM, memory=memory) == compact(raws, WARM, memory=CompactionMemory())


def test_a_compacted_state_is_unknown_to_another_scope_or_policy():
    memory = CompactionMemory()
    raws = support(40)
    list(compact_calls(raws, WARM, memory))
    trim = CompactionPolicy(mode=CompactionMode.TRIM)

    assert not compact(raws, trim, memory=memory).compacted_messages
    one, other = (
        compact(raws, WARM, memory=memory, context=ConversationContext(scope=scope))
        for scope in (b"", b"other")
    )
    assert one.messages == other.messages


def test_off_means_off():
    raws = support(40)

    compacted = once(raws, CompactionPolicy(mode=CompactionMode.OFF, force=True))

    assert not compacted.changed


def test_trimming_tells_results_shorter_from_their_first_call_on():
    raws = [user("Look."), *tool_call_and_result("list", {}, orjson.dumps(
        [{"name": f"file {n}", "size": n, "open": False} for n in range(40)],
        option=orjson.OPT_INDENT_2).decode())]  # fmt: skip

    compacted = once(raws, CompactionPolicy(mode=CompactionMode.TRIM))

    assert compacted.changed
    assert compacted.tokens_after < compacted.tokens_before
    assert compacted.messages[:2] == tuple(raws[:2])
    assert "file 39" in orjson.loads(compacted.messages[2])["content"]


def test_a_result_that_was_there_before_is_a_pointer_until_what_it_points_to_is_compacted():
    page = "\n".join(f"{n} one line of a page" for n in range(40))
    twice = [
        *tool_call_and_result("open", {"page": 1}, page),
        *tool_call_and_result("open", {"page": 1}, page),
    ]
    raws = [user("a"), *twice, assistant("b"), user("c")]
    memory = CompactionMemory()

    compacted = compact(raws, CompactionPolicy(mode=CompactionMode.TRIM), memory=memory)

    assert "one line of a page" not in compacted.messages[4].decode()
    after = once([user("a"), *twice[:2], assistant("b"), user("c"), *twice[2:], user("d"),
                  assistant("e"), user("f")])  # fmt: skip
    assert any(b"39 one line of a page" in raw for raw in after.messages[1:])


def test_authority_in_the_middle_keeps_its_words_and_its_role():
    raws = support(12)
    rule = system("From now on answer in French.")
    raws.insert(9, rule)

    compacted = once(raws)

    assert compacted.compacted_messages
    assert any(message is rule for message in compacted.messages)
    assert not chat_faults(compacted.messages)


def test_pictures_of_a_user_stay():
    raws = support(12)
    picture = orjson.dumps({"role": "user", "content": [
        {"type": "text", "text": "This one."},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]})  # fmt: skip
    raws.insert(5, picture)
    raws.insert(6, assistant("I see."))

    compacted = once(raws)

    assert compacted.compacted_messages
    assert any(message is picture for message in compacted.messages)


def test_words_of_users_survive():
    raws = support(12)
    raws[5] = user("Never call me before noon.\nMy dog is called Rex.")

    text = once(raws).segments[0].text

    assert "Never call me before noon." in text
    assert "My dog is called Rex." in text


def test_calls_and_results_that_do_not_fit_are_left_alone():
    raws = support(12)
    del raws[2]

    with pytest.raises(CannotCompactError):
        once(raws)


def test_calls_made_at_once_stay_together():
    both = parallel_tool_calls([("f", {"n": 1}, "one " * 400), ("g", {"n": 2}, "two " * 400)])
    raws = support(8)
    raws[4:4] = both

    for keep in (1, 2, 3):
        assert not chat_faults(
            once(raws, CompactionPolicy(force=True, once=True, keep_turns=keep)).messages
        )


def test_a_target_is_met_where_it_can_be_and_what_is_lost_is_named():
    raws = support(30, extra=30)
    whole = once(raws)
    target = whole.tokens_after // 2

    compacted = once(raws, CompactionPolicy(force=True, once=True, target=target))
    hopeless = once(raws, CompactionPolicy(force=True, once=True, target=1))

    assert compacted.tokens_after <= target
    assert len(whole.lost) <= len(compacted.lost) < len(hopeless.lost)


def test_forcing_compacts_part_by_part_and_appends():
    policy = CompactionPolicy(force=True, least=800)
    segments: tuple[str, ...] = ()
    for compacted in compact_calls(support(40), policy):
        texts = tuple(segment.text for segment in compacted.segments)
        assert texts[: len(segments)] == segments
        segments = texts

    assert len(segments) > 3


def test_ten_compactions_recall_what_one_does():
    raws = support(44)
    names = [f"BK{turn:04}X" for turn in range(40)] + [
        f"ana_ruiz_{turn * 7 + 1000}" for turn in range(40)
    ]

    often = list(compact_calls(raws, CompactionPolicy(force=True, least=600)))[-1]
    at_once = once(raws)

    assert len(often.segments) >= 10
    assert all(name in b"".join(often.messages).decode() for name in names)
    assert all(name in b"".join(at_once.messages).decode() for name in names)


def test_a_value_named_again_is_recalled_and_then_frozen():
    raws = agent(140, 60)
    raws += [assistant("Done."), user("What did read_3_37 in src/module_3.py do again?")]
    memory = CompactionMemory()

    compacted = compact(raws, WARM, memory=memory)

    assert compacted.compacted_messages
    last = orjson.loads(compacted.messages[-1])["content"]
    assert last.startswith("What did read_3_37")
    assert "37: def read_3_37(text): return text" in last
    longer = compact(
        [*raws, assistant("It returned its text."), user("Good.")], WARM, memory=memory
    )
    assert longer.messages[: len(compacted.messages)] == compacted.messages


def test_newest_calls_bear_witness():
    raws = support(12)[:-1]
    raws += [
        user("Cancel the first."),
        *tool_call_and_result("cancel", {"id": "BK0000X"}, "ok"),
        user("Good."),
    ]
    raws += [assistant("Yes."), user("So?")]
    memory = CompactionMemory()
    policy = CompactionPolicy(force=True, least=500)

    evidences = [compact(call, policy, memory=memory).evidence for call in client_requests(raws)]

    assert any(
        evidence is not None and evidence.needed == 1 and evidence.lost == 0
        for evidence in evidences
    )


@pytest.mark.parametrize("target", [0, 1_500, 250])
def test_tokens_that_a_login_returned_reach_the_model_whole(target):
    token = f"eyJhbGciOiJIUzI1NiJ9.eyJ{'a1B2c3D4e5' * 30}.SflKxwRJSM{'x9Y8' * 8}"
    secrets = {"access_token": token, "wifi_password": "sunflower-2024"}
    chat = [
        user("Log in, and look up how it stands."),
        *tool_call_and_result("login", {"password": "hunter2hunter2"}, secrets),
        *(one for turn in range(9) for one in (user(f"Step {turn}?"), assistant(_POLITE))),
        user("Please list the orders."),
    ]

    sent = once(chat, msgspec.structs.replace(ONCE, target=target))

    assert sent.segments
    prompt = b"".join(sent.messages).decode()
    stands = [secret in prompt for secret in (token, "sunflower-2024", "hunter2hunter2")]
    assert all(stands) or target == 250
    assert all(stands) or token in sent.lost
    assert "[secret]" not in prompt
