import json

from compaction.facts.fact import Kind
from compaction.facts.offered import offer_commands, offer_records
from compaction.facts.standing import standing
from tests.compaction.facts.regions import Said, assistant, called, parted, user

ORDERS = [{"id": f"W10{at}", "fee": 10 * at + 7, "state": "open"} for at in range(9)]
DESK: list[Said] = [
    user("Always ask first. What of W104?"),
    called("list_orders", json.dumps(ORDERS), "a"),
    called("get_owner", '{"owner": "mei_li_77"}', "b", of="W104"),
    assistant("W104 is $47 and is due on May 3. It will be $52 with tax."),
    called("get_owner", '{"owner": "ana_vo_12"}', "c", of="W105"),
    called("transfer", "Error: no money", "d", to="W104"),
]


def test_a_record_is_offered_with_less_and_less_of_its_rows_and_last_without():
    part = parted(*DESK)
    offer = offer_records(part, standing(part.exchanges))

    (orders,) = [each for each in offer.exchanged if each[0].text.startswith("list_orders")]
    rows = [each.text.count("W10") for each in orders]
    assert rows == [5, 3, 0]
    assert orders[0].text.endswith("of:9}")
    assert orders[-1].text == "list_orders() → …"


def test_calls_whose_values_were_named_again_come_first_and_then_the_newest():
    part = parted(*DESK)
    offer = offer_records(part, standing(part.exchanges))

    first = [each[0].text.partition("(")[0] for each in offer.exchanged]
    assert first == ["list_orders", "transfer", "get_owner", "get_owner"]
    assert "ana_vo_12" in offer.exchanged[2][0].text


def test_goals_and_rules_are_marks_and_sentences_with_values_are_said():
    part = parted(*DESK)
    offer = offer_records(part, standing(part.exchanges))

    assert {each.kind for each in offer.marks} == {Kind.GOAL, Kind.RULE}
    assert any("$52 with tax" in each.text for each in offer.said)
    assert not offer.names


def test_of_what_can_be_had_again_names_are_offered_and_of_records_none():
    part = parted(
        user("go"),
        called("bash", "src/app.py\nsrc/lib.py\n20417\n" * 9, "a", command="ls -R src/"),
        called("get_order", '{"id": "W-4711"}', "b"),
    )

    offer = offer_commands(part)

    assert {"src/app.py", "src/lib.py"} <= set(offer.names)
    assert not {"20417", "W-4711"} & set(offer.names)
    assert {each[0].kind for each in offer.exchanged} == {Kind.COMMAND, Kind.FILE}
