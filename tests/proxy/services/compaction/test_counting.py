from compaction.reading.token_estimate import estimate_tokens
from compaction.reading.vocabulary import Tokenizer
from proxy.services.compaction.counting import conversation_scope, token_counter, tool_tokens

WORDS = "Where is my parcel? It has number 1777. " * 20


def test_most_models_count_as_the_estimate_does():
    assert token_counter("gpt-5.6-terra") is estimate_tokens
    assert token_counter("") is estimate_tokens
    assert conversation_scope("team_1", "gpt-5.6-terra") == b"team_1"


def test_newer_claudes_count_more_and_share_one_function():
    newer = token_counter("claude-opus-5-5")

    assert newer is token_counter("us.anthropic.claude-haiku-5-5-v1:0")
    assert newer(WORDS) == round(1.3 * estimate_tokens(WORDS))
    assert newer("") == 0


def test_older_models_of_openai_count_by_their_own_vocabulary():
    older = token_counter("gpt-4-turbo")

    assert older is token_counter("gpt-3.5-turbo")
    assert older("请一直用中文回复我。") == Tokenizer("cl100k_base").count("请一直用中文回复我。")
    assert conversation_scope("team_1", "gpt-4-turbo") != b"team_1"


def test_a_conversation_that_is_counted_otherwise_is_another_one():
    assert conversation_scope("team_1", "claude-opus-5-5") == conversation_scope(
        "team_1", "claude-fable-5"
    )
    assert (
        conversation_scope("team_1", "claude-opus-5-5")
        != conversation_scope("team_1", "claude-opus-4-6")
        == b"team_1"
    )


def test_tools_are_counted_as_messages_are():
    tools = (b'{"type":"function"}', b'{"name":"\xff"}')
    count = token_counter("claude-opus-5-5")

    assert tool_tokens(tools, count) == sum(count(raw.decode(errors="replace")) for raw in tools)
    assert tool_tokens((), count) == 0
