import time

import msgspec
import pytest

from compaction.facts.purposes import purposes
from compaction.facts.region_contents import part
from compaction.reading.harness_results import voiced
from compaction.reading.turns import units
from tests.compaction.facts.regions import Said, assistant, called, parted, region, user

WEIGHT = 3_000


def step(words: str, ref: str = "c1", command: str = "x") -> list[dict[str, object]]:
    """What the assistant says, the call that it makes with that, and what comes back."""
    call, result = called("bash", "so it is", ref, command=command)
    return [call | {"content": words}, result]


def meant(*said: Said, weight: int = WEIGHT, start: int = 0) -> dict[int, str]:
    read = parted(*said, start=start)
    return dict(purposes(read, range(len(read.exchanges)), weight))


def test_what_a_call_was_for_is_the_last_thing_said_before_it():
    words = "The lock is never given back.\n\nI read the file to see who takes it."

    assert meant(step(words)) == {0: "I read the file to see who takes it"}


def test_what_only_says_that_it_is_done_now_is_left_out():
    assert meant(step("Good. Now let me also see why it waits:")) == {0: "see why it waits"}
    assert meant(step("It waits for the lock. Let me look:")) == {0: "It waits for the lock"}


def test_what_frames_a_call_is_none_of_it():
    said = assistant(
        "THOUGHT: First I look for the lock.\n\n```bash\ngrep -rn lock src\n```\n</reply>"
    )
    found = user("<returncode>0</returncode>\n<output>\nsrc/a.py:1: lock\n</output>")
    bare = assistant("DISCUSSION\nNow its owner must be found, I think.\n```\nopen src/a.py\n```")
    opened = user("<returncode>0</returncode>\n<output>\nlock = 1\n</output>")

    spoken = region(user("Go."), said, found, bare, opened)
    heard = voiced(spoken.messages)
    framed = part(msgspec.structs.replace(spoken, messages=heard, units=units(heard)))

    assert purposes(framed, [0, 1], WEIGHT) == {
        0: "First I look for the lock",
        1: "Now its owner must be found, I think",
    }


def test_of_calls_made_at_once_the_first_says_it():
    (one, back), (other, more) = called("bash", "1", "a"), called("bash", "2", "b")
    both = {**one, "tool_calls": [*one["tool_calls"], *other["tool_calls"]]}

    assert meant([both | {"content": "Both are looked at again."}, back, more]) == {
        0: "Both are looked at again"
    }


def test_what_says_nothing_is_left_out():
    assert meant(step("Okay.", "a"), step("", "b")) == {}


def test_a_decision_has_a_line_of_its_own():
    assert meant(step("Let me see. The root cause is the cache, so I read it.")) == {}


def test_what_was_said_before_the_part_is_none_of_it():
    assert meant(step("I read the file again."), start=1) == {}


def test_a_long_one_keeps_its_beginning_and_one_without_end_is_none():
    told = meant(step("I try it with " + "another of the many flags " * 20))[0]

    assert told.startswith("I try it with another")
    assert told.endswith(" …")
    assert len(told) < 120
    assert meant(step("I try it with " + "another of the many flags " * 80)) == {}


def test_where_room_is_short_the_latest_stay():
    many = [step(f"Now the case number {at} is tried.", f"c{at}") for at in range(60)]

    found = meant(*many)

    assert 8 < len(found) < 30
    assert list(found) == list(range(59, 59 - len(found), -1))
    assert len(meant(*many, weight=30_000)) > 2 * len(found)
    assert len(meant(*many, weight=200)) == 1


@pytest.mark.parametrize(
    "secret",
    [
        "password=hunter2hunter2",
        "PGPASSWORD=hunter2hunter2",
        "the password is hunter2hunter2",
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG",
        "token: abcd1234efgh5678",
        "https://ada:hunter2@db.example/orders",
    ],
)
def test_a_sentence_with_a_secret_is_none(secret):
    assert meant(step(f"I sign in with {secret} to see the orders.")) == {}


def test_long_words_take_no_time():
    many = [step("word. " * 40_000 + "x" * 40_000, f"c{at}") for at in range(20)]
    read = parted(*many)

    before = time.process_time()
    purposes(read, range(20), WEIGHT)

    assert time.process_time() - before < 0.5
