import time

from compaction.facts.detail_levels import segment
from compaction.facts.segment import Rung
from compaction.facts.shown import names
from tests.compaction.facts.regions import asked, assistant, called, parted, region

LISTING = "\n".join(f"src/package/module_{at}.py" for at in range(400))


def told(part, share=1.0, said=None):
    every = range(len(part.exchanges))
    said = dict.fromkeys(every, "") if said is None else said
    return names(part, said, list(every), share)[0]


def test_a_name_stays_with_the_exchange_that_showed_it_last():
    part = parted(
        called("bash", "def first_one(): other_one", "a", command="cat x"),
        called("bash", "first_one again", "b", command="cat y"),
    )

    assert told(part) == {0: ["other_one"], 1: ["first_one"]}


def test_what_its_line_says_is_not_said_again():
    part = parted(called("bash", "a/b/c.py b/c.py some_name other_name", command="x"))

    assert told(part, said={0: "ran z/a/b/c.py some_name.x"}) == {0: ["other_name"]}


def test_names_of_a_call_that_was_made_again_stand_with_the_last_like_it():
    part = parted(
        called("bash", "old_name", "a", command="x"), called("bash", "new_name", "b", command="x")
    )

    assert names(part, {1: ""}, [1, 1], 1.0)[0] == {1: ["old_name", "new_name"]}


def test_exchanges_that_do_not_stay_tell_nothing():
    part = parted(
        called("bash", "old_name", "a", command="x"), called("bash", "new_name", "b", command="y")
    )

    assert names(part, {1: ""}, [0, 1], 1.0)[0] == {1: ["new_name"]}


def test_where_room_is_short_later_and_repeated_names_stay():
    part = parted(
        called("bash", " ".join(f"early_{at}" for at in range(200)), "a", command="x"),
        called("bash", "both_times early_7", "b", command="y"),
        called("bash", "both_times late_one", "c", command="z"),
    )

    assert told(part, 0.0) == {}
    found = [name for each in told(part, 0.3).values() for name in each]
    assert {"both_times", "early_7", "late_one"} <= set(found)
    assert len(found) < 50


def test_a_listing_keeps_as_many_paths_as_there_is_room_for():
    part = parted(called("bash", LISTING, command="find"))
    found = told(part)[0]

    assert found[0] == "src/package/module_0.py"
    assert 60 < len(found) < 200


def test_what_segments_before_it_say_leaves_its_room_to_what_is_new():
    said = [
        called("bash", LISTING, "a", command="find src"),
        called("bash", f"{LISTING}\nold_name new_name", "b", command="cat y"),
    ]
    first = segment(region(*said, end=2), Rung.FACTS, len)
    paths = set(first.text.split()) & set(LISTING.split())

    again = told(parted(*said, start=2, part=2, earlier=(first,)))[0]
    alone = told(parted(*said, start=2))[0]

    assert paths
    assert paths.isdisjoint(again)
    assert not paths.isdisjoint(alone)
    assert {"old_name", "new_name"} <= set(again)
    assert len(again) > 60


def test_what_the_assistant_wrote_counts_too_and_keys_do_not():
    words = assistant("I call set_up(x) with password: hunter_two_x") | {
        "tool_calls": called("bash", "", command="run my_script.py")[0]["tool_calls"]
    }
    part = parted(
        [words, called("bash", "done", command="")[1]], asked("", "not {json", "its_name")
    )

    found = told(part)

    assert found == {0: ["set_up", "my_script.py"], 1: ["its_name"]}


def test_arguments_that_are_nested_too_deep_are_read_as_text():
    part = parted(asked("put", "[" * 200 + '"deep_name"' + "]" * 200, ""))

    assert told(part) == {0: ["deep_name"]}


def test_exchanges_that_showed_more_names_than_they_say_are_known():
    part = parted(
        called("bash", "def first_one(): other_one", "a", command="cat x"),
        called("bash", "first_one again", "b", command="cat y"),
        called("bash", "plain words", "c", command="cat z"),
    )

    assert names(part, dict.fromkeys(range(3), ""), [0, 1, 2], 1.0)[1] == {0}
    assert names(part, {0: "first_one", 1: "", 2: ""}, [0, 1, 2], 1.0)[1] == set()
    assert names(part, dict.fromkeys(range(3), ""), [0, 1, 2], 0.0)[1] == {0, 1}


def test_many_names_take_no_time():
    part = parted(
        *(called("bash", f"a{at}_b/" * 2_000, f"c{at}", command=f"{at}") for at in range(20))
    )

    before = time.process_time()
    told(part)

    assert time.process_time() - before < 1
