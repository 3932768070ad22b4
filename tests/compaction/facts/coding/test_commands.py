import time

import msgspec
import pytest

from compaction.facts.coding.commands import (
    _call_purpose,
    _covered_names,
    _name_score,
    _SeenName,
    call_purposes,
    names_to_keep,
)
from compaction.facts.region_contents import read_region
from compaction.facts.segment_fitting import segment_within
from compaction.reading.harness_results import assign_voices
from compaction.reading.turns import split_units
from tests.compaction.facts.regions import (
    Said,
    assistant,
    call_and_result,
    raw_call_and_result,
    read_contents,
    region,
    user,
)

WEIGHT = 3_000


def step(words: str, ref: str = "c1", command: str = "x") -> list[dict[str, object]]:
    """The assistant's text, the call that it makes with it, and the result."""
    call, result = call_and_result("bash", "so it is", ref, command=command)
    return [call | {"content": words}, result]


def purposes(*turns: Said, weight: int = WEIGHT, start: int = 0) -> dict[int, str]:
    read = read_contents(*turns, start=start)
    return dict(call_purposes(read, range(len(read.exchanges)), weight))


def test_a_calls_purpose_is_the_last_sentence_before_it():
    words = "The lock is never given back.\n\nI read the file to see who takes it."

    assert purposes(step(words)) == {0: "I read the file to see who takes it"}


def test_statements_that_something_is_being_done_are_left_out():
    assert purposes(step("Good. Now let me also see why it waits:")) == {0: "see why it waits"}
    assert purposes(step("It waits for the lock. Let me look:")) == {0: "It waits for the lock"}


def test_lines_that_frame_a_call_are_no_purpose():
    statement = assistant(
        "THOUGHT: First I look for the lock.\n\n```bash\ngrep -rn lock src\n```\n</reply>"
    )
    output = user("<returncode>0</returncode>\n<output>\nsrc/a.py:1: lock\n</output>")
    bare = assistant("DISCUSSION\nNow its owner must be found, I think.\n```\nopen src/a.py\n```")
    opened = user("<returncode>0</returncode>\n<output>\nlock = 1\n</output>")

    spoken = region(user("Go."), statement, output, bare, opened)
    heard = assign_voices(spoken.messages)
    framed = read_region(msgspec.structs.replace(spoken, messages=heard, units=split_units(heard)))

    assert call_purposes(framed, [0, 1], WEIGHT) == {
        0: "First I look for the lock",
        1: "Now its owner must be found, I think",
    }


def test_of_calls_made_at_once_the_first_has_the_purpose():
    (one, result), (other, more) = (
        call_and_result("bash", "1", "a"),
        call_and_result("bash", "2", "b"),
    )
    both = {**one, "tool_calls": [*one["tool_calls"], *other["tool_calls"]]}

    assert purposes([both | {"content": "Both are looked at again."}, result, more]) == {
        0: "Both are looked at again"
    }


def test_commands_that_say_nothing_are_left_out():
    assert purposes(step("Okay.", "a"), step("", "b")) == {}


def test_a_sentence_before_the_region_is_no_purpose():
    assert purposes(step("I read the file again."), start=1) == {}


def test_a_long_purpose_keeps_its_beginning_and_an_endless_one_is_dropped():
    purpose = purposes(step("I try it with " + "another of the many flags " * 20))[0]

    assert purpose.startswith("I try it with another")
    assert purpose.endswith(" …")
    assert len(purpose) < 120
    assert purposes(step("I try it with " + "another of the many flags " * 80)) == {}


def test_the_latest_purposes_stay_where_room_is_short():
    many = [step(f"Now the case number {number} is tried.", f"c{number}") for number in range(60)]

    latest = purposes(*many)

    assert 8 < len(latest) < 30
    assert list(latest) == list(range(59, 59 - len(latest), -1))
    assert len(purposes(*many, weight=30_000)) > 2 * len(latest)
    assert len(purposes(*many, weight=200)) == 1


def test_long_words_take_no_time():
    many = [step("word. " * 40_000 + "x" * 40_000, f"c{number}") for number in range(20)]
    read = read_contents(*many)

    before = time.process_time()
    call_purposes(read, range(20), WEIGHT)

    assert time.process_time() - before < 0.5


LISTING = "\n".join(f"src/package/module_{number}.py" for number in range(400))


def names_kept(part, lines=None):
    every = range(len(part.exchanges))
    lines = dict.fromkeys(every, "") if lines is None else lines
    return names_to_keep(part, lines, list(every))[0]


def test_a_name_stays_with_the_exchange_that_showed_it_last():
    part = read_contents(
        call_and_result("bash", "def first_one(): other_one", "a", command="cat x"),
        call_and_result("bash", "first_one again", "b", command="cat y"),
    )

    assert names_kept(part) == {0: ["other_one"], 1: ["first_one"]}


def test_a_command_does_not_repeat_its_line():
    part = read_contents(
        call_and_result("bash", "a/b/c.py b/c.py some_name other_name", command="x")
    )

    assert names_kept(part, lines={0: "ran z/a/b/c.py some_name.x"}) == {0: ["other_name"]}


def test_names_of_a_call_that_was_made_again_stand_with_the_last_like_it():
    part = read_contents(
        call_and_result("bash", "old_name", "a", command="x"),
        call_and_result("bash", "new_name", "b", command="x"),
    )

    assert names_to_keep(part, {1: ""}, [1, 1])[0] == {1: ["old_name", "new_name"]}


def test_exchanges_that_do_not_stay_tell_nothing():
    part = read_contents(
        call_and_result("bash", "old_name", "a", command="x"),
        call_and_result("bash", "new_name", "b", command="y"),
    )

    assert names_to_keep(part, {1: ""}, [0, 1])[0] == {1: ["new_name"]}


def test_where_room_is_short_later_and_repeated_names_stay():
    part = read_contents(
        call_and_result(
            "bash", " ".join(f"early_{number}" for number in range(200)), "a", command="x"
        ),
        call_and_result("bash", "both_times early_7", "b", command="y"),
        call_and_result("bash", "both_times late_one", "c", command="z"),
    )

    names = [name for group in names_kept(part).values() for name in group]
    assert {"both_times", "early_7", "late_one"} <= set(names)
    assert len(names) < 100


def test_a_listing_keeps_as_many_paths_as_there_is_room_for():
    part = read_contents(call_and_result("bash", LISTING, command="find"))
    names = names_kept(part)[0]

    assert names[0] == "src/package/module_0.py"
    assert 60 < len(names) < 200


def test_facts_of_earlier_segments_leave_their_room_to_new_ones():
    turns = [
        call_and_result("bash", LISTING, "a", command="find src"),
        call_and_result("bash", f"{LISTING}\nold_name new_name", "b", command="cat y"),
    ]
    first = segment_within(region(*turns, end=2), len(LISTING) // 2, len)
    paths = set(first.text.split()) & set(LISTING.split())

    again = names_kept(read_contents(*turns, start=2, earlier=(first,)))[0]
    alone = names_kept(read_contents(*turns, start=2))[0]

    assert paths
    assert paths.isdisjoint(again)
    assert not paths.isdisjoint(alone)
    assert {"old_name", "new_name"} <= set(again)
    assert len(again) > 60


def test_commands_count_texts_of_the_assistant():
    words = assistant("I call set_up(x).") | {
        "tool_calls": call_and_result("bash", "", command="run my_script.py")[0]["tool_calls"]
    }
    part = read_contents(
        [words, call_and_result("bash", "done", command="")[1]],
        raw_call_and_result("", "not {json", "its_name"),
    )

    names = names_kept(part)

    assert names == {0: ["set_up", "my_script.py"], 1: ["its_name"]}


def test_arguments_that_are_nested_too_deep_are_read_as_text():
    part = read_contents(raw_call_and_result("put", "[" * 200 + '"deep_name"' + "]" * 200, ""))

    assert names_kept(part) == {0: ["deep_name"]}


def test_exchanges_that_showed_more_names_than_they_say_are_known():
    part = read_contents(
        call_and_result("bash", "def first_one(): other_one", "a", command="cat x"),
        call_and_result("bash", "first_one again", "b", command="cat y"),
        call_and_result("bash", "plain words", "c", command="cat z"),
    )

    assert names_to_keep(part, dict.fromkeys(range(3), ""), [0, 1, 2])[1] == {0}
    assert names_to_keep(part, {0: "first_one", 1: "", 2: ""}, [0, 1, 2])[1] == set()


def test_many_names_take_no_time():
    part = read_contents(
        *(
            call_and_result("bash", f"a{number}_b/" * 2_000, f"c{number}", command=f"{number}")
            for number in range(20)
        )
    )

    before = time.process_time()
    names_kept(part)

    assert time.process_time() - before < 1


def test_a_purpose_of_100_characters_stands_whole_and_a_longer_one_is_cut():
    assert purposes(step(f"It waits {'y' * 91}")) == {0: f"It waits {'y' * 91}"}
    assert purposes(step(f"It waits {'y' * 92}")) != {0: f"It waits {'y' * 92}"}


def test_a_purpose_stands_in_the_1000_characters_before_its_call():
    assert len(purposes(step(f"It waits {'y' * 991}"))) == 1
    assert len(purposes(step(f"It waits {'y' * 992}"))) == 0


@pytest.mark.parametrize(("weight", "count"), [(3_000, 25), (15_000, 50), (1_500, 20)])
def test_purposes_have_150_tokens_or_a_share_of_a_region(weight, count):
    """Each takes 4 tokens and 2 for its frame: of 150, of 2 % of 15,000 and of 8 % of 1,500."""
    steps = [step("see why it waits", f"c{n}", f"x{n}") for n in range(60)]

    assert len(purposes(*steps, weight=weight)) == count


NAMES = " ".join(f"early_{number}" for number in range(400))


@pytest.mark.parametrize(
    ("shown", "paths", "names"), [(NAMES[:550], 0, 24), (f"{LISTING}\n{NAMES}", 65, 38)]
)
def test_names_have_100_tokens_or_15_percent_of_a_region_and_paths_three_quarters(
    shown: str, paths: int, names: int
):
    kept = names_kept(read_contents(call_and_result("bash", shown, command="x")))[0]
    shown_paths = sum("/" in name for name in kept)

    assert (shown_paths, len(kept) - shown_paths) == (paths, names)


@pytest.mark.parametrize(("here", "score"), [(1, 2.0), (7, 1.0), (13, 2 / 3)])
def test_the_score_of_a_name_is_half_six_calls_later(here: int, score: float):
    name = _SeenName()
    name.weight, name.times = 1, 2

    assert _name_score(name, here) == score


def test_sixteen_folders_of_a_path_are_covered():
    steps = [f"s{number}" for number in range(20)]
    covered = _covered_names("/".join(steps))

    assert ["/".join(steps[:end]) in covered for end in (15, 16, 17)] == [True, True, False]


@pytest.mark.parametrize(("chars", "purpose"), [(40, "I look for it"), (39, "I wait for it")])
def test_a_call_is_found_in_a_text_by_its_first_40_characters(chars: int, purpose: str):
    (exchange,) = read_contents(raw_call_and_result("bash", "x" * 60, "ok")).exchanges

    assert _call_purpose(f"I look for it. {'x' * chars}. I wait for it.", exchange) == purpose
