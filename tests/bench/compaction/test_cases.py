"""Tests of what a case needs, and of the probes' own counting."""

import json

import pytest

from tests.bench.compaction.cases import at_risk, is_held_back, pairs, plain, stands
from tests.bench.compaction.probes import count_faults, orphans
from tests.bench.compaction.retail import retail
from tests.fakes.dialogue import SPELT, names_in, words
from tests.fakes.dialogues import asks, gives, says, user

CHAT = [
    user("A-1 and B-2."),
    says("Of C-3 and D-4."),
    user("one"),
    says("B-2 again"),
    user("two"),
    says("ok"),
    user("three"),
]


def test_value_that_stands_in_the_last_turns_is_not_at_risk():
    assert at_risk(CHAT, len(CHAT), ["A-1", "B-2", "C-3", "E-5"]) == ["a-1", "c-3"]


def test_value_that_a_user_said_is_not_the_assistants():
    assert at_risk(CHAT, len(CHAT), ["A-1", "C-3"], by_assistant=True) == ["c-3"]


def test_pair_is_of_one_message():
    assert list(pairs(CHAT, ["a-1", "c-3", "d-4"])) == [("c-3", "d-4")]


def test_a_third_of_the_dialogues_is_held_back():
    assert 280 < sum(is_held_back(f"dialogue {number}") for number in range(1_000)) < 390


@pytest.mark.parametrize(
    ("text", "value", "stands_there"),
    [
        ("id 12 is", "12", True),
        ("id 123 is", "12", False),
        ("id 312, 12", "12", True),
        ('{"a":"12"}', "12", True),
        ("", "12", False),
        ("去恭王府玩", "恭王府", True),
        ("上午9:30开门", "9:30", True),
        ("서울역에서", "서울역", True),
        ("Lübecks", "lübeck", False),
    ],
)
def test_value_stands_as_a_whole_where_its_script_parts_words(text, value, stands_there):
    assert stands(text, value) is stands_there


def test_any_spelling_of_a_value_stands_for_it():
    assert stands("on 2026-03-08", f"next friday{SPELT}2026-03-08")
    assert not stands("on friday", f"next friday{SPELT}2026-03-08")


def test_escapes_case_and_white_space_make_no_difference():
    assert plain('a\\n B\\u00e9 \\"c\\"\n\nd') == 'a bé "c" d'


def test_action_names_paths_and_identifiers():
    names = names_in("sed -i s/x/y/ src/a_b/lexer.py && run lastTok emit_token(1) plain")

    assert ("path", "src/a_b/lexer.py") in names
    assert {name for kind, name in names if kind == "name"} == {"lastTok", "emit_token"}


def test_retail_calls_are_put_together_from_their_results(tmp_path):
    order = (
        '{"order_id": "#W1", "status": "exchange requested", "exchange_items": ["17"],'
        ' "exchange_new_items": ["29"], "exchange_payment_method_id": "card_5"}'
    )
    talk = "user: I am a@b.example\nassistant: None\ntool: ann_lee_1234\nassistant: None\ntool: "
    path = tmp_path / "few_shot.jsonl"
    path.write_text(json.dumps({"messages_display": talk + order}))

    (dialogue,) = retail(path)

    assert [words(message) for message in dialogue.messages if message.get("tool_calls")] == [
        'find_user_id_by_email {"email":"a@b.example"}',
        (
            'exchange_delivered_order_items {"order_id":"#W1","exchange_items":["17"],'
            '"exchange_new_items":["29"],"exchange_payment_method_id":"card_5"}'
        ),
    ]


def test_orphans_and_faults_that_providers_refuse_are_counted():
    call, result = asks("x", "go"), gives("x", "")

    assert orphans([user("a"), call, result]) == 0
    assert orphans([user("a"), result]) == 1
    assert orphans([user("a"), call, user("b")]) == 1
    assert count_faults([user("a"), call, gives("x", "gone")]) == 0
    assert count_faults([says("a"), says("b")]) == 2
    assert count_faults([user(""), user("b")]) == 1


def test_words_of_a_message_are_its_text_and_calls():
    parts = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}

    assert words(parts) == "a\n"
    assert words(asks("x", "go", a=1)) == 'go {"a":1}'
