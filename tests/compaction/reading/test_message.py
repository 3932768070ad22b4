import pytest

from compaction.reading.message import Called, Message, Unfoldable, Voice


def test_a_message_holds_words_alone_where_nothing_else_is_said_of_it():
    message = Message(raw=b"{}", digest=b"", role="user", voice=Voice.USER)

    assert message.whole
    assert not message.signed
    assert not message.calls
    assert message.answers == ""


def test_equal_messages_are_equal():
    one, other = (
        Message(raw=b"{}", digest=b"1", role="assistant", voice=Voice.ASSISTANT, calls=(call,))
        for call in (Called("a", "f", "{}"), Called("a", "f", "{}"))
    )

    assert one == other


def test_a_conversation_that_cannot_be_folded_says_why():
    with pytest.raises(Unfoldable, match="signed"):
        raise Unfoldable("signed")
