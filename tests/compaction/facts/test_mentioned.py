from compaction.facts.mentioned import mentioned
from tests.compaction.facts.regions import assistant, called, parted, user


def test_what_users_the_assistant_and_calls_say_is_mentioned_and_no_result():
    part = parted(user("Find Mei."), assistant("Sure!"), called("find", "found", who="Brown"))

    assert {"Mei", "Sure", "Brown"} <= mentioned(part)
    assert "found" not in mentioned(part)
