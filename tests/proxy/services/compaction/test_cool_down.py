from proxy.services.compaction.cool_down import REST, SEVERAL, Rests

PLACE = ("t", "chat")
NOW = 1_790_000_000.0


def test_a_conversation_rests_alone_and_for_a_while():
    rests = Rests()

    assert not rests.refused(PLACE, b"a", NOW)
    assert rests.conversation(b"a", NOW + REST - 1)
    assert not rests.conversation(b"a", NOW + REST)
    assert not rests.conversation(b"b", NOW)
    assert not rests.feature(PLACE, NOW)


def test_a_feature_rests_once_several_conversations_were_refused():
    rests = Rests()
    found = [rests.refused(PLACE, b"%d" % at, NOW) for at in range(SEVERAL)]

    assert found == [False] * (SEVERAL - 1) + [True]
    assert rests.feature(PLACE, NOW + 1)
    assert not rests.feature(PLACE, NOW + REST)
    assert not rests.feature(("t", "code"), NOW)


def test_one_conversation_that_is_refused_again_and_again_is_still_one():
    rests = Rests()

    assert not any(rests.refused(PLACE, b"a", NOW) for _ in range(9))


def test_what_was_refused_long_ago_does_not_count():
    rests = Rests()
    for at in range(9):
        assert not rests.refused(PLACE, b"%d" % at, NOW + at * REST / 2)


def test_where_nobody_knows_the_conversation_the_feature_rests():
    rests = Rests()

    assert rests.refused(PLACE, b"", NOW)
    assert rests.feature(PLACE, NOW)
