from compaction.reading.token_estimate import estimate
from proxy.services.compaction.counting import counting, declared, scope

WORDS = "Where is my parcel? It has number 1777. " * 20


def test_most_models_count_as_the_estimate_does():
    assert counting("gpt-5.6-terra") is estimate
    assert counting("") is estimate
    assert scope("team_1", "gpt-5.6-terra") == b"team_1"


def test_newer_claudes_count_more_and_share_one_function():
    newer = counting("claude-opus-5-5")

    assert newer is counting("us.anthropic.claude-haiku-5-5-v1:0")
    assert newer(WORDS) == round(1.3 * estimate(WORDS))
    assert newer("") == 0


def test_a_conversation_that_is_counted_otherwise_is_another_one():
    assert scope("team_1", "claude-opus-5-5") == scope("team_1", "claude-fable-5")
    assert scope("team_1", "claude-opus-5-5") != scope("team_1", "claude-opus-4-6") == b"team_1"


def test_tools_are_counted_as_messages_are():
    tools = (b'{"type":"function"}', b'{"name":"\xff"}')
    count = counting("claude-opus-5-5")

    assert declared(tools, count) == sum(count(raw.decode(errors="replace")) for raw in tools)
    assert declared((), count) == 0
