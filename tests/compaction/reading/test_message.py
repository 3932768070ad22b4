import pytest

from compaction.reading.message import CalledTool, CannotCompactError, ParsedMessage, Voice


def test_a_message_holds_words_alone_where_nothing_else_is_said_of_it():
    message = ParsedMessage(raw=b"{}", digest=b"", role="user", voice=Voice.USER)

    assert message.whole
    assert not message.signed
    assert not message.calls
    assert message.answers == ""


def test_equal_messages_are_equal():
    one, other = (
        ParsedMessage(
            raw=b"{}", digest=b"1", role="assistant", voice=Voice.ASSISTANT, calls=(call,)
        )
        for call in (CalledTool("a", "f", "{}"), CalledTool("a", "f", "{}"))
    )

    assert one == other


def test_a_conversation_that_cannot_be_compacted_says_why():
    with pytest.raises(CannotCompactError, match="signed"):
        raise CannotCompactError("signed")
