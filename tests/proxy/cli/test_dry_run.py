"""A conversation compacted by itself."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from msgspec import structs

from compaction.compact import CompactedChat
from compaction.policy import CompactionMode, CompactionPolicy, RelativePrices
from proxy.cli.dry_run import ChatConversation, DryRunResult, conversation, dry_run
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
    said: list[dict[str, Any]] = [
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
        said += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{turn}", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": f"c{turn}", "content": orjson.dumps(order).decode()},
            {"role": "assistant", "content": f"Order ORD-{500 + turn} was sent, with tea.{MORE}"},
            {"role": "user", "content": f"And where is the order number {501 + turn}, please?"},
        ]
    return said


def of(*messages: Any, **fields: Any) -> ChatConversation:
    return conversation(orjson.dumps({"messages": list(messages), "tools": TOOLS, **fields}))


def signed_message() -> dict[str, Any]:
    """A message with thinking that its provider signed."""
    return {"role": "assistant", "content": "Hm.", "thinking_blocks": [{"signature": "x"}]}


def run_dry(said: ChatConversation, policy: CompactionPolicy = FORCED) -> DryRunResult:
    return dry_run(said, policy, model="any", upstream_model="gpt-5.6-terra")


def test_a_forced_conversation_is_compacted_and_what_is_sent_weighs_what_is_told():
    said = of(*talk())
    found = run_dry(said)

    assert found.compacted
    assert found.changed
    assert found.reason == "forced"
    assert found.compacted_messages > 10
    assert found.facts
    assert found.segments[0]["start"] == 1
    assert found.tokens_after < found.tokens_before
    body = orjson.dumps(
        {"messages": [orjson.loads(bytes(each)) for each in found.messages], "tools": TOOLS}
    )
    counted = TokenCounter().prompt_tokens(body, "chat/completions", "gpt-5.6-terra")
    assert found.tokens_after == counted
    assert "Never write to ann@example.com." in str(found.facts)


def test_the_facts_and_the_rest_are_plain_json():
    document = orjson.loads(orjson.dumps(orjson.loads(_encode(run_dry(of(*talk()))))))

    names = {"messages", "facts", "tokens_before", "tokens_after", "compacted", "reason"}
    assert names <= document.keys()
    assert document["messages"][0] == talk()[0]


def _encode(found: DryRunResult) -> bytes:
    import msgspec  # noqa: PLC0415 - as the terminal prints it

    return msgspec.json.encode(found)


def test_a_short_conversation_goes_unmodified():
    said = of(*talk(0))
    found = run_dry(said, CompactionPolicy())

    assert not found.compacted
    assert not found.changed
    assert found.tokens_before == found.tokens_after
    assert found.facts == ()
    assert [bytes(each) for each in found.messages] == list(said.messages)


def test_off_leaves_everything():
    found = run_dry(of(*talk()), CompactionPolicy(mode=CompactionMode.OFF))

    assert (found.reason, found.changed, found.mode) == ("off", False, "off")


def test_trim_says_results_shorter_and_compacts_nothing():
    found = run_dry(of(*talk()), CompactionPolicy(mode=CompactionMode.TRIM))

    assert found.changed
    assert not found.compacted
    assert len(found.messages) == len(talk())
    assert found.tokens_after < found.tokens_before


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (of(*talk(), {"role": "user", "content": "/compact"}), "client"),
        (of(*talk(), context_management={"edits": []}), "native"),
        (of(*talk(), {"role": "tool", "tool_call_id": "gone", "content": "?"}), "invalid"),
        (of(*talk(), signed_message()), "signed"),
        (of({"role": "wizard", "content": "?"}), None),
    ],
)
def test_a_call_that_the_gateway_leaves_unmodified_is_left_unmodified_in_a_dry_run(said, reason):
    found = run_dry(said)

    assert not found.changed
    assert not found.compacted
    assert found.reason == (reason or found.reason) != ""


def compacts_to(*messages: Any, tokens: int = 0) -> Callable[..., CompactedChat]:
    """Compacts whatever it is to these messages."""
    raws = tuple(map(orjson.dumps, messages))
    return lambda *_, **__: CompactedChat(
        messages=raws, changed=True, reason="pays", tokens_before=0, tokens_after=tokens
    )


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (({"role": "user", "content": "long " * 9},), "grew"),
        (({"role": "user", "content": ""},), "invalid"),
        (({"role": "user", "content": "Hi"}, {"role": "wizard", "content": "?"}), "invalid"),
    ],
)
def test_a_compaction_that_would_be_longer_or_refused_is_not_sent(sent, why):
    said = of({"role": "user", "content": "Hi there!"})
    compaction = compacts_to(*sent, tokens=int(why == "grew"))
    found = dry_run(
        said, FORCED, model="any", upstream_model="gpt-5.6-terra", compact_chat=compaction
    )

    assert (found.reason, found.changed, found.compacted) == (why, False, False)
    assert [bytes(each) for each in found.messages] == list(said.messages)
    assert found.tokens_before == found.tokens_after


def test_tokens_are_scaled_to_a_model_whose_vocabulary_is_not_published():
    said = of(*talk())
    ours, theirs = (
        dry_run(said, FORCED, model="any", upstream_model=name).tokens_before
        for name in ("gpt-5.6-terra", "claude-opus-5-5")
    )

    assert theirs == pytest.approx(ours * 1.3, rel=0.01)


def test_a_mark_before_the_json_and_missing_tools_do_no_harm():
    said = conversation(b'\xef\xbb\xbf{"messages":[{"role":"user","content":"Hi"}],"tools":null}')

    assert run_dry(said).tokens_before == run_dry(said).tokens_after > 0


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "holds no JSON"),
        (b"{", "holds no JSON"),
        (b'{"messages":[' * 5_000, "holds no JSON"),
        (b"\xff\xfe", "holds no JSON"),
        (b"[]", "no JSON object"),
        (b'{"messages":[{},3]}', r"messages\[1\] something else than an object"),
        (b"{}", 'has no "messages"'),
        (b'{"messages":[]}', "has no message"),
        (b'{"messages":{}}', '"messages" something else than a list'),
        (b'{"messages":[{}],"tools":{}}', '"tools" something else than a list'),
    ],
)
def test_a_file_that_is_no_conversation_is_explained(raw, why):
    with pytest.raises(OperatorError, match=why):
        conversation(raw)


def test_faults_of_the_unmodified_conversation_are_reported_and_nothing_is_compacted():
    found = run_dry(of(*talk(), {"role": "tool", "tool_call_id": "gone", "content": "?"}))

    assert found.faults == ("messages[38] answers no call that waits for a result",)
    assert (found.changed, found.calls, found.since_call) == (False, 0, None)


def test_a_target_that_was_missed_is_reported_with_what_stands_in_its_way():
    said = of(*talk())
    missed, met, none = (
        run_dry(said, structs.replace(FORCED, target=target)) for target in (100, 100_000, 0)
    )

    assert missed.target_missed == missed.tokens_after - 100
    assert missed.kept_tokens is not None
    assert 100 < missed.kept_tokens < missed.tokens_after
    assert (met.target_missed, none.target_missed) == (None, None)


def test_a_compaction_of_an_earlier_call_is_reported_with_that_call():
    eager, whole = CompactionPolicy(prices=FORCED.prices, force=True), talk(40)
    said = [run_dry(of(*whole[: 4 * n + 2]), eager) for n in range(10, 41, 2)]
    since = [found.since_call for found in said if found.since_call is not None]
    later = [found.calls for found in said if found.compacted]

    assert len(since) == len(later) > 0
    assert since == sorted(since)
    assert all(at <= now for at, now in zip(since, later, strict=True))
    assert any(at < now for at, now in zip(since, later, strict=True))
    assert run_dry(of(*talk()), FORCED).since_call == 19


def test_the_reason_for_no_compaction_is_reported_beside_its_expected_savings():
    found = dry_run(
        of(*talk()), FORCED, model="any", upstream_model="gpt-5.6-terra", gateway="thinks"
    )

    assert (found.gateway, found.compacted) == ("thinks", True)
    assert run_dry(of(*talk())).gateway is None
