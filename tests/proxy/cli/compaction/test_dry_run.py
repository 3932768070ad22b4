"""A conversation compacted by itself."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from msgspec import structs

from compaction.compact import CompactedChat
from compaction.policy import CompactionMode, CompactionPolicy, RelativePrices
from proxy.cli.compaction.dry_run import ChatConversation, DryRunResult, conversation, dry_run
from proxy.errors import OperatorError
from proxy.tokens.counter import TokenCounter

FORCED = CompactionPolicy(prices=RelativePrices(read=0.1, write=1.25), force=True, once=True)
TOOLS = [{"type": "function", "function": {"name": "get_order", "parameters": {"type": "object"}}}]

MORE = (
    " It left our house in the morning, in a box of its own, and the parcel service took it along"
    " with all others of that day. You need do nothing, for somebody will ring at your door; and if"
    " nobody is in, a neighbour may take it."
)


def talk(turns: int = 9) -> list[dict[str, Any]]:
    """Orders are looked up, one a turn."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Never write to ann@example.com. Where is order 500?"},
    ]
    for turn in range(turns):
        order = {
            "order": f"ORD-{500 + turn}",
            "state": "sent",
            "lines": [{"item": f"tea {n}", "state": "sent"} for n in range(30)],
        }
        function = {"name": "get_order", "arguments": f'{{"id":"ORD-{500 + turn}"}}'}
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{turn}", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": f"c{turn}", "content": orjson.dumps(order).decode()},
            {"role": "assistant", "content": f"Order ORD-{500 + turn} was sent, with tea.{MORE}"},
            {"role": "user", "content": f"And where is the order number {501 + turn}, please?"},
        ]
    return messages


def of(*messages: Any, **fields: Any) -> ChatConversation:
    return conversation(orjson.dumps({"messages": list(messages), "tools": TOOLS, **fields}))


def signed_message() -> dict[str, Any]:
    """A message with thinking that its provider signed."""
    return {"role": "assistant", "content": "Hm.", "thinking_blocks": [{"signature": "x"}]}


def run_dry(chat: ChatConversation, policy: CompactionPolicy = FORCED) -> DryRunResult:
    return dry_run(chat, policy, model="any", upstream_model="gpt-5.6-terra")


def test_a_forced_conversation_is_compacted_and_what_is_sent_weighs_what_is_told():
    chat = of(*talk())
    result = run_dry(chat)

    assert result.compacted
    assert result.changed
    assert result.reason == "forced"
    assert result.compacted_messages > 10
    assert result.facts
    assert result.segments[0]["start"] == 1
    assert result.tokens_after < result.tokens_before
    body = orjson.dumps(
        {"messages": [orjson.loads(bytes(message)) for message in result.messages], "tools": TOOLS}
    )
    counted = TokenCounter().prompt_tokens(body, "chat/completions", "gpt-5.6-terra")
    assert result.tokens_after == counted
    assert "Never write to ann@example.com." in str(result.facts)


def test_the_facts_and_the_rest_are_plain_json():
    document = orjson.loads(orjson.dumps(orjson.loads(_encode(run_dry(of(*talk()))))))

    names = {"messages", "facts", "tokens_before", "tokens_after", "compacted", "reason"}
    assert names <= document.keys()
    assert document["messages"][0] == talk()[0]


def _encode(result: DryRunResult) -> bytes:
    import msgspec  # noqa: PLC0415 - as the terminal prints it

    return msgspec.json.encode(result)


def test_a_short_conversation_goes_unmodified():
    chat = of(*talk(0))
    result = run_dry(chat, CompactionPolicy())

    assert not result.compacted
    assert not result.changed
    assert result.tokens_before == result.tokens_after
    assert result.facts == ()
    assert [bytes(message) for message in result.messages] == list(chat.messages)


def test_off_leaves_everything():
    result = run_dry(of(*talk()), CompactionPolicy(mode=CompactionMode.OFF))

    assert (result.reason, result.changed, result.mode) == ("off", False, "off")


def test_trim_says_results_shorter_and_compacts_nothing():
    result = run_dry(of(*talk()), CompactionPolicy(mode=CompactionMode.TRIM))

    assert result.changed
    assert not result.compacted
    assert len(result.messages) == len(talk())
    assert result.tokens_after < result.tokens_before


@pytest.mark.parametrize(
    ("chat", "reason"),
    [
        (of(*talk(), {"role": "user", "content": "/compact"}), "client"),
        (of(*talk(), context_management={"edits": []}), "native"),
        (of(*talk(), {"role": "tool", "tool_call_id": "gone", "content": "?"}), "invalid"),
        (of(*talk(), signed_message()), "signed"),
        (of({"role": "wizard", "content": "?"}), None),
    ],
)
def test_a_call_that_the_gateway_leaves_unmodified_is_left_unmodified_in_a_dry_run(chat, reason):
    result = run_dry(chat)

    assert not result.changed
    assert not result.compacted
    assert result.reason == (reason or result.reason) != ""


def compacts_to(*messages: Any, tokens: int = 0) -> Callable[..., CompactedChat]:
    """Compacts whatever it is to these messages."""
    raws = tuple(map(orjson.dumps, messages))
    return lambda *_, **__: CompactedChat(
        messages=raws, changed=True, reason="pays", tokens_before=0, tokens_after=tokens
    )


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        (({"role": "user", "content": "long " * 9},), "grew"),
        (({"role": "user", "content": ""},), "invalid"),
        (({"role": "user", "content": "Hi"}, {"role": "wizard", "content": "?"}), "invalid"),
    ],
)
def test_a_compaction_that_would_be_longer_or_refused_is_not_sent(answers, why):
    chat = of({"role": "user", "content": "Hi there!"})
    compaction = compacts_to(*answers, tokens=int(why == "grew"))
    result = dry_run(
        chat, FORCED, model="any", upstream_model="gpt-5.6-terra", compact_chat=compaction
    )

    assert (result.reason, result.changed, result.compacted) == (why, False, False)
    assert [bytes(message) for message in result.messages] == list(chat.messages)
    assert result.tokens_before == result.tokens_after


def test_tokens_are_scaled_to_a_model_whose_vocabulary_is_not_published():
    chat = of(*talk())
    ours, theirs = (
        dry_run(chat, FORCED, model="any", upstream_model=name).tokens_before
        for name in ("gpt-5.6-terra", "claude-opus-5-5")
    )

    assert theirs == pytest.approx(ours * 1.3, rel=0.01)


def test_a_mark_before_the_json_and_missing_tools_do_no_harm():
    chat = conversation(b'\xef\xbb\xbf{"messages":[{"role":"user","content":"Hi"}],"tools":null}')

    assert run_dry(chat).tokens_before == run_dry(chat).tokens_after > 0


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "is not valid JSON"),
        (b"{", "is not valid JSON"),
        (b'{"messages":[' * 5_000, "is not valid JSON"),
        (b"\xff\xfe", "is not valid JSON"),
        (b"[]", "is not a JSON object"),
        (b'{"messages":[{},3]}', r"messages\[1\] is not an object"),
        (b"{}", 'has no "messages"'),
        (b'{"messages":[]}', 'has an empty "messages" list'),
        (b'{"messages":{}}', '"messages" is not a list'),
        (b'{"messages":[{}],"tools":{}}', '"tools" is not a list'),
    ],
)
def test_a_file_that_is_no_conversation_is_explained(raw, why):
    with pytest.raises(OperatorError, match=why):
        conversation(raw)


def test_faults_of_the_unmodified_conversation_are_reported_and_nothing_is_compacted():
    result = run_dry(of(*talk(), {"role": "tool", "tool_call_id": "gone", "content": "?"}))

    assert result.faults == ("messages[38] answers no call that waits for a result",)
    assert (result.changed, result.calls, result.since_call) == (False, 0, None)


def test_a_target_that_was_missed_is_reported_with_what_stands_in_its_way():
    chat = of(*talk())
    missed, met, none = (
        run_dry(chat, structs.replace(FORCED, target=target)) for target in (30, 100_000, 0)
    )

    assert missed.target_missed == missed.tokens_after - 30
    assert missed.kept_tokens is not None
    assert 30 < missed.kept_tokens < missed.tokens_after
    assert (met.target_missed, none.target_missed) == (None, None)


def test_a_compaction_of_an_earlier_call_is_reported_with_that_call():
    eager, whole = CompactionPolicy(prices=FORCED.prices, force=True), talk(40)
    results = [run_dry(of(*whole[: 4 * n + 2]), eager) for n in range(10, 41, 2)]
    since = [result.since_call for result in results if result.since_call is not None]
    later = [result.calls for result in results if result.compacted]

    assert len(since) == len(later) > 0
    assert since == sorted(since)
    assert all(first <= now for first, now in zip(since, later, strict=True))
    assert any(first < now for first, now in zip(since, later, strict=True))
    assert run_dry(of(*talk()), FORCED).since_call == 19
