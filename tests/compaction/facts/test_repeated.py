import json
import time

from hypothesis import given
from hypothesis import strategies as st

from compaction.facts.repeated import Said
from compaction.reading.message import Called

SCRIPT = (
    'python -c \'import os; os.environ.setdefault("A_LONG_NAME", "x"); run(mode={}); print(1)\''
)


def shell(command: str, **more: object) -> Called:
    return Called(id="", name="bash", arguments=json.dumps({"command": command, **more}))


def test_a_short_call_is_said_whole():
    assert Said(40)(shell("ls")) == "bash(command=ls)"


def test_one_like_an_earlier_one_is_said_by_what_is_other():
    say = Said(60)

    first = say(shell(SCRIPT.format("one"), timeout=3))
    second = say(shell(SCRIPT.format("two"), timeout=3))

    assert "as above" not in first
    assert second == (
        'bash(command="python -c \'import os; os… as above, but …run(mode=two);…", timeout=3)'
    )


def test_one_that_only_begins_alike_is_said_by_itself():
    say = Said(60)
    say(shell(SCRIPT.format("one")))

    assert "as above" not in say(shell(SCRIPT[:40] + " and so on" * 20))


def test_plain_text_is_said_so_too():
    say = Said(60)
    say(Called(id="", name="shell", arguments=SCRIPT.format("one")))

    assert say(Called(id="", name="shell", arguments=SCRIPT.format("two"))) == (
        "shell(python -c 'import os; os… as above, but …run(mode=two);…)"
    )


def test_text_that_was_only_cut_short_shows_its_end():
    say = Said(60)
    say(Called(id="", name="shell", arguments="a" * 300))

    assert say(Called(id="", name="shell", arguments="a" * 299)) == (
        f"shell({'a' * 24}… as above, but …{'a' * 40}…)"
    )


def test_a_password_never_comes_to_stand_alone():
    say = Said(60)
    text = "curl --retry 3 --silent https://a.b/c/d/e -H 'Authorization: Bearer {}' --fail -o x.js"
    say(shell(text.format("abcdef123456")))

    assert "fedcba" not in say(shell(text.format("fedcba654321")))


def test_arguments_without_texts_are_said_as_they_are():
    assert Said(5)(Called(id="", name="add", arguments='{"a":1}')) == "add(a=1)"


@given(st.lists(st.text(), max_size=4), st.integers(1, 40))
def test_every_call_is_one_line(texts, most):
    say = Said(most)

    assert all(len(say(shell(text)).splitlines()) == 1 for text in texts)


def test_long_calls_take_no_time():
    say = Said(160)
    before = time.process_time()
    for at in range(30):
        say(shell("x" * 30_000 + str(at) + " y" * 9_000))

    assert time.process_time() - before < 1
