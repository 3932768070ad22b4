"""Tests of what is sent of a body, and why it is sent unmodified."""

import msgspec
import orjson
import pytest

from compaction.compact import compact
from compaction.memory import CompactionMemory
from compaction.policy import CompactionMode, CompactionPolicy
from compaction.reading.message import CannotCompactError
from proxy.prefix.planner import Planner
from proxy.prefix.prompts.objects import Unplannable
from proxy.services.compaction.chat_body import compact_call, identify_conversation
from proxy.services.compaction.recall_tool import RecallRules
from tests.fakes.call_dependencies import KEY
from tests.proxy.prefix.planning_requests import TARGETS, PlanningProcess, planning_request
from tests.proxy.services.compaction.compaction_fixtures import (
    SECRET,
    Shorter,
    chat,
    chat_message,
    talk,
    task,
)


def compact_task(request=None, shorter=None, **fields):
    """Compact a call."""
    return compact_call(task(request, **fields), shorter or Shorter(), CompactionMemory())


def why(request=None, shorter=None, **fields):
    """Reason that a call is sent unmodified."""
    result = compact_task(request, shorter, **fields).result
    assert result.sent is None
    assert not result.is_compacted
    return result.why


@pytest.mark.parametrize(
    ("endpoint", "takes_recall", "is_given"),
    [
        ("chat/completions", True, True),
        ("chat/completions", False, False),
        ("messages", True, True),
    ],
)
def test_the_recall_tool_is_given_to_calls_whose_route_takes_it(endpoint, takes_recall, is_given):
    policy = CompactionPolicy(mode=CompactionMode.FACTS_RECALL, force=True, least=300, target=300)
    messages = [chat_message("user", "Hello."), *talk(40)[1:]]
    request = chat(*messages, endpoint=endpoint)
    compacted = task(request, policy=policy, recall=RecallRules(calls_tools=takes_recall))
    result = compact_call(compacted, compact, CompactionMemory()).result

    assert result.is_compacted
    assert (result.removed is not None) is is_given
    assert result.sent is not None
    assert (b"thriftgate_recall" in result.sent.body) is is_given


def test_messages_are_replaced_and_every_other_byte_stays():
    request = chat(body=b'{ "model":"m", "messages":%b,"seed": 7.0 }' % orjson.dumps(talk()))
    result = compact_task(request).result
    assert result.sent is not None
    body = result.sent.body

    assert orjson.loads(body)["messages"] == [
        talk()[0],
        chat_message("user", "In short: parcels."),
        talk()[-1],
    ]
    assert b'"seed":7.0' in body
    assert result.sent.fields is request.fields
    assert (result.why, result.before, result.after, result.reset) == ("pays", 900, 100, True)
    assert (result.break_even, result.needed, result.lost) == (2.5, 3, 1)


def test_chat_body_has_the_conversation_id_that_planning_uses():
    whole = chat()
    compacted = compact_task(whole)
    assert compacted.result.sent is not None
    house = PlanningProcess(TARGETS["openai-interval"])
    house.planner = planner = Planner(SECRET)
    who = {"team": "team_1", "feature": "chat", "key": KEY.id}
    first = [message for message in talk() if message["role"] != "assistant"][:2]
    house.plan(planning_request(orjson.dumps({"model": "m", "messages": first}), **who))
    before = planner.read_call(planning_request(whole.body, **who))
    after = planner.read_call(
        planning_request(compacted.result.sent.body, origin=compacted.result.sent.origin, **who)
    )

    assert compacted.conversation is not None
    assert compacted.conversation.name == before.conversation == after.conversation
    assert compacted.conversation == identify_conversation(whole, SECRET)
    assert before.turns == after.turns == 6


def test_a_conversation_of_the_control_arm_is_computed_and_sent_unmodified():
    result = compact_task(control_share=1.0).result

    assert (result.why, result.sent, result.is_compacted) == ("control", None, False)
    assert result.messages is None
    assert (result.before, result.after, result.needed, result.lost) == (900, 100, 3, 1)


def test_a_dry_run_says_what_it_would_do():
    result = compact_task(is_dry=True).result

    assert result.header == "unmodified; reason=dry_run: pays; tokens=900->100"
    assert result.sent is None


def test_an_unchanged_chat_is_sent_unmodified_with_its_reason():
    request = chat()
    raws = tuple(map(orjson.dumps, talk()))
    shorter = Shorter(messages=raws, changed=False, reason="too_early", tokens_after=900)

    assert why(request, shorter) == "too_early"


def test_a_chat_that_grew_is_sent_unmodified():
    assert why(shorter=Shorter(tokens_after=901)) == "grew"


def test_a_chat_that_a_provider_would_refuse_is_sent_unmodified():
    orphan = orjson.dumps(chat_message("tool", "x", tool_call_id="c9"))

    assert why(shorter=Shorter(messages=(orphan,))) == "invalid"
    assert compact_task(shorter=Shorter(messages=(orphan,))).result.notes


@pytest.mark.parametrize(
    ("incoming", "reason"),
    [
        (chat(chat_message("system", "You help.")), "nothing_said"),
        (chat(*talk(), chat_message("user", "/compact")), "client"),
        (chat(slots="0=stable"), "slots"),
        (chat(*talk(), chat_message("user", "<tg:variable>now</tg:variable>")), "slots"),
        (
            chat(body=b'{"model":"m","messages":[{"role":"user"}],"context_management":{}}'),
            "native",
        ),
    ],
)
def test_calls_that_are_left_alone(incoming, reason):
    shorter = Shorter()

    assert why(incoming, shorter) == reason
    assert shorter.asked == []


def test_only_what_is_sent_as_its_policy_has_it_is_decided():
    raws = tuple(map(orjson.dumps, talk()))
    same = Shorter(messages=raws, changed=False, reason="too_early", tokens_after=900)

    assert compact_task().is_decided
    assert compact_task(shorter=same).is_decided
    assert not compact_task(shorter=same, is_dry=True).is_decided
    assert not compact_task(control_share=1.0).is_decided
    assert not compact_task(shorter=Shorter(tokens_after=901)).is_decided
    assert not compact_task(chat(*talk(), chat_message("user", "/compact"))).is_decided


def test_where_nothing_is_said_there_is_no_conversation():
    assert identify_conversation(chat(chat_message("system", "You help.")), SECRET) is None


def test_tools_and_texts_are_counted_as_the_models_provider_does():
    tool = {"type": "function", "function": {"name": "find", "description": "Finds it. " * 40}}
    request = chat(body=orjson.dumps({"model": "m", "messages": talk(60), "tools": [tool] * 9}))

    def before(model):
        tokens = compact_call(task(request, model=model), compact, CompactionMemory()).result.before
        assert tokens is not None
        return tokens

    assert before("claude-opus-5-5") == pytest.approx(1.3 * before("gpt-5.6-terra"), rel=0.02)


def test_conversations_that_are_counted_otherwise_share_nothing():
    memory, request = CompactionMemory(), chat(*talk(60))
    alone = compact_call(task(request, model="claude-opus-5-5"), compact, CompactionMemory()).result
    compact_call(task(request, model="gpt-5.6-terra"), compact, memory)

    assert compact_call(task(request, model="claude-opus-5-5"), compact, memory).result == alone


def test_a_body_that_cannot_be_read_says_so():
    with pytest.raises(Unplannable):
        compact_task(chat(body=b'{"model":"m"}'))


def test_a_chat_that_cannot_be_compacted_raises_the_reason():
    with pytest.raises(CannotCompactError, match="signed"):
        compact_task(shorter=Shorter(CannotCompactError("signed")))


def test_the_core_itself_compacts_a_long_conversation_and_stays_valid():
    request = chat(*talk(60))
    policy = CompactionPolicy(force=True, target=3_000)
    result = compact_call(task(request, policy=policy), compact, CompactionMemory()).result
    again = compact_call(task(request, policy=policy), compact, CompactionMemory()).result
    assert result.sent is not None
    assert again.sent is not None

    assert result.sent.body == again.sent.body
    assert result.after is not None
    assert result.before is not None
    assert result.after < result.before
    assert result.messages is not None
    assert 0 < result.messages < len(msgspec.json.decode(request.body)["messages"])
    assert msgspec.json.decode(result.sent.body)["messages"][0] == talk()[0]


def test_results_said_shorter_are_no_compacted_messages():
    parcels = [{"parcel": n, "carrier": "Nordpost", "state": "in transit"} for n in range(200)]
    asks = {"id": "t", "type": "function", "function": {"name": "parcels", "arguments": "{}"}}
    shown = orjson.dumps(parcels, option=orjson.OPT_INDENT_2).decode()
    request = chat(
        chat_message("user", "Where are they?"),
        {"role": "assistant", "content": None, "tool_calls": [asks]},
        {"role": "tool", "tool_call_id": "t", "content": shown},
    )
    result = compact_call(
        task(request, policy=CompactionPolicy(mode=CompactionMode.FACTS)),
        compact,
        CompactionMemory(),
    ).result

    assert (result.is_compacted, result.messages) == (True, 0)
    assert result.reset is False
