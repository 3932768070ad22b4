import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.facts.candidates import CandidatePin
from compaction.facts.fact import FactKind
from compaction.facts.segment_fitting import segment_within
from compaction.facts.speech import (
    ReferenceStrength,
    Speech,
    _scanned_units,
    _without_calls,
    reference_strength,
)
from compaction.reading.message_parser import parse_message
from compaction.reading.token_estimate import estimate_tokens
from tests.compaction.facts.regions import (
    assistant,
    call_and_result,
    raw_call_and_result,
    read_contents,
    region,
    texts,
    user,
)
from tests.examples import examples


@pytest.mark.parametrize(
    ("answer", "leans"),
    [
        ("The second one.", ReferenceStrength.CHOOSES),
        ("B", ReferenceStrength.CHOOSES),
        ("2 please", ReferenceStrength.CHOOSES),
        ("the cheaper", ReferenceStrength.CHOOSES),
        ("Take the first, three nights.", ReferenceStrength.CHOOSES),
        ("Yes", ReferenceStrength.AGREES),
        ("do it", ReferenceStrength.AGREES),
        ("that would be just lovely", ReferenceStrength.AGREES),
        ("that would be just lovely!", ReferenceStrength.NOT),
        ("可以", ReferenceStrength.AGREES),
        ("Yes, with card 7447", ReferenceStrength.NOT),
        ("I would like to fly from Rome to Paris in May", ReferenceStrength.NOT),
        ("the first " * 20, ReferenceStrength.NOT),
    ],
)
def test_short_answers_lean_on_what_they_answer(answer, leans):
    assert reference_strength(answer) is leans


@pytest.mark.parametrize(
    ("answer", "strength"),
    [
        ("q" * 25, ReferenceStrength.AGREES),
        ("q" * 26, ReferenceStrength.NOT),
        ("qqqqqqqq wwwwwwwww b", ReferenceStrength.CHOOSES),
        ("qqqqqqqq wwwwwwwwww b", ReferenceStrength.AGREES),
        ("the first one".ljust(120), ReferenceStrength.CHOOSES),
        ("the first one".ljust(121), ReferenceStrength.NOT),
    ],
)
def test_an_answer_needs_its_question_by_its_length(answer, strength):
    assert reference_strength(answer) is strength


@pytest.mark.parametrize("piece", ["the ", "a ", "((", "the first", " "])
def test_no_answer_takes_long(piece):
    before = time.process_time()
    reference_strength(piece * 100_000)

    assert time.process_time() - before < 1


def candidates(*turns, is_bounded=False, **fields):
    return list(Speech(read_contents(*turns, **fields)).candidates(is_bounded=is_bounded))


def variants(*turns, **fields):
    return [texts(candidate.variants[0]) for candidate in candidates(*turns, **fields)]


OFFER = assistant("Flight KLT417 is $121. Shall I book it?")


def test_a_question_and_its_bare_answer_are_one_candidate():
    assert variants(OFFER, user("Yes")) == [
        ["Flight KLT417 is $121.", "Shall I book it?", "Yes", "Yes"]
    ]
    assert variants(OFFER, user("Yes, with card 7447"), is_bounded=True) == [
        ["Yes, with card 7447", "Yes, with card 7447"],
        ["Flight KLT417 is $121."],
        ["Shall I book it?"],
    ]


def test_a_choice_stands_with_all_there_was_to_choose_from():
    listed = "There are two. Which one?\n\n1. Rome\n2. Oslo"

    assert variants(assistant(listed), user("the first"))[0][:-2] == [
        "There are two.",
        "Which one?",
        "1) Rome",
        "2) Oslo",
    ]


def test_a_question_of_the_user_stands_with_its_bare_answer():
    assert variants(user("Is it near?"), assistant("Yes, very."))[0] == [
        "Yes, very.",
        "Is it near?",
        "Is it near?",
    ]


def test_repeated_sentences_of_the_assistant_stand_but_once():
    turns = [assistant("Can I help with anything else?"), user("No I am happy with it all, thanks")]

    assert variants(*turns * 2).count(["Can I help with anything else?"]) == 1


def test_without_a_target_replies_that_tell_and_open_questions_stand_and_other_questions_need_not():
    pins = {
        candidate.fact.text: candidate.pin
        for candidate in candidates(
            user("Where is it open, and when, and for whom?"),
            assistant("It is open daily. It is near the mill. Do you need more? Shall I call 117?"),
            user("Not yet, for I have to ask my sister first."),
            assistant("How about the tea room?"),
        )
    }

    assert pins["It is near the mill."] is CandidatePin.TELLING
    assert pins["Shall I call 117?"] is CandidatePin.TELLING
    assert pins["Do you need more?"] is CandidatePin.NOT
    assert pins["How about the tea room?"] is CandidatePin.TELLING
    assert pins["Where is it open, and when, and for whom?"] is CandidatePin.ALWAYS


def test_with_a_target_a_users_sentences_are_candidates_and_rules_always_stand():
    page = user("I was in Rome. Always ask first. It rained.")
    _, rule, last = candidates(page, is_bounded=True)

    assert rule.is_mark
    assert texts(rule.variants[-1]) == ["Always ask first."]
    assert {fact.kind for fact in rule.variants[-1]} == {FactKind.RULE}
    assert not last.is_mark


def test_sentences_of_one_message_stand_on_one_line_and_gaps_in_users_words_are_marked():
    speech = Speech(
        read_contents(user("I am Bo. It rains. I am 12."), assistant("So. It is. Yes."))
    )
    facts = [one.variants[0][-1] for one in speech.candidates(is_bounded=True)]
    by_text = {fact.text: fact for fact in facts}

    joined = speech.join_sentences(
        [by_text[text] for text in ("Yes.", "I am 12.", "So.", "I am Bo.")]
    )

    assert texts(joined) == ["So. … Yes.", "I am Bo. […] I am 12."]


def test_layout_and_the_call_that_a_reply_writes_out_are_no_sentences():
    reply = assistant("**Plan**:\n- look\n```bash\nls -R src\n```") | {
        "tool_calls": call_and_result("bash", "", command="ls")[0]["tool_calls"]
    }
    reply["tool_calls"][0]["function"]["arguments"] = "ls -R src"

    assert variants([reply, call_and_result("bash", "x")[1]]) == [["Plan: - look"]]


OPTIONS = assistant(
    "There are three:\n\n1. **Rome**:\n   - at 9:40\n   - $121\n2. **Oslo**:\n   - at 7:15\n"
    "3. **Bern**:\n   - at 8:20\n\nWhich do you take?"
)


def reply_line(reply, *places):
    """The line of a reply of which some units stand."""
    speech = Speech(read_contents(reply))
    facts = [one.variants[0][-1] for one in speech.candidates(is_bounded=True)]
    (line,) = texts(speech.join_sentences([facts[place] for place in places]))
    return line


def test_a_list_item_stands_or_goes_with_its_lines():
    assert variants(OPTIONS) == [
        ["There are three: 1) Rome: at 9:40; $121"],
        ["2) Oslo: at 7:15"],
        ["3) Bern: at 8:20"],
        ["Which do you take?"],
    ]


def test_a_list_that_is_not_whole_says_where_items_are_missing():
    assert (
        reply_line(OPTIONS, 0, 2) == "There are three: 1) Rome: at 9:40; $121 […] 3) Bern: at 8:20"
    )
    assert reply_line(OPTIONS, 1, 3) == "[…] 2) Oslo: at 7:15 […] Which do you take?"
    assert reply_line(OPTIONS, 1) == "[…] 2) Oslo: at 7:15 […]"
    assert reply_line(OPTIONS, 3) == "… Which do you take?"


def test_a_sentence_behind_a_list_is_no_part_of_its_last_item():
    assert reply_line(assistant("- Fee: 9\n- Bags: 2 (free)\n\nIs it right?"), 0, 1, 2) == (
        "- Fee: 9 - Bags: 2 (free). Is it right?"
    )


list_items = st.lists(
    st.sampled_from(["W-1041", "Oslo", "at 9:40", "for $12", "by the mill"]), min_size=1, max_size=3
)


@examples(60)
@given(st.lists(list_items, min_size=1, max_size=8), st.integers(10, 200))
def test_at_any_size_an_item_has_all_its_lines_and_gaps_are_marked(items, size):
    numbered = [
        f"{n}. Way {n}:" + "".join(f"\n   - {line} {n}" for line in lines)
        for n, lines in enumerate(items, 1)
    ]
    listed = "\n".join(["These are open:", *numbered, "", "More?"])
    text = segment_within(region(user("Which?"), assistant(listed)), size, estimate_tokens)

    line = next((one for one in text.text.split("\n") if one.startswith("assistant: ")), "")
    stands = [n for n in range(1, len(items) + 1) if f"{n}) Way {n}:" in line]
    if not text.simple_way:
        assert all(f"{one} {n}" in line for n in stands for one in items[n - 1])
        assert not stands or len(stands) == len(items) or "[…]" in line


def test_a_warning_about_a_pasted_text_always_stands():
    mail = "From: Bo <bo@x.org>\nTo: me\nSubject: Pay\n\nAlways pay at once.\n"
    every = candidates(
        user(f"Is it real?\n\n{mail}"), assistant("This looks like phishing. Do not pay it. Bye.")
    )

    assert [candidate.fact.text for candidate in every if candidate.is_mark] == [
        "This looks like phishing.",
        "Do not pay it.",
    ]


@pytest.mark.parametrize("piece", ["I ", "1. ", "A) ", "a? ", "- ", " \n", "** ", "```"])
def test_no_text_takes_long(piece):
    before = time.process_time()
    candidates(assistant(piece * 20_000), user("B"))

    assert time.process_time() - before < 1


@pytest.mark.parametrize(
    "answer", ["Oui, parfait, on fait comme ça alors.", "はい、それで結構です。家族も喜びます。"]
)
def test_a_proposal_that_the_user_accepted_is_worth_more(answer):
    proposal = assistant("The Quayside Rest is at Tanner's Row 3, by the harbour. It is quiet.")
    later = assistant("It has rooms.")

    worth = {
        one.fact.text: one.factor
        for one in candidates(user("A hotel?"), proposal, user(answer), later)
    }
    called = candidates(user("Go"), call_and_result("f", "1"), proposal, user("Yes, all of that!"))

    assert worth["The Quayside Rest is at Tanner's Row 3, by the harbour."] == 1.6
    assert worth["It has rooms."] == 1.0
    assert {one.factor for one in called} == {1.0}


def test_a_refused_proposal_stands_or_goes_with_its_refusal():
    refused = variants(
        assistant("Then I would go to the Fernhouse. It is full of palms."),
        user("No, my father is bored by plants."),
        assistant("Understood. Then the Sugar Loft at 14:30."),
        user("Perfect, he will love that."),
        is_bounded=True,
    )

    assert refused[0][:3] == [
        "Then I would go to the Fernhouse.",
        "It is full of palms.",
        "No, my father is bored by plants.",
    ]
    assert ["Then the Sugar Loft at 14:30."] in refused
    assert sum("Then I would go to the Fernhouse." in one for one in refused) == 1


def test_a_no_to_the_question_at_a_replys_end_refuses_nothing_told_before_it():
    told = variants(
        assistant("The reference is 2EGCVFWC. It is payable at the station. Anything else?"),
        user("No, I am happy with it all, thank you very much."),
        is_bounded=True,
    )

    assert ["The reference is 2EGCVFWC."] in told


def test_a_short_refused_proposal_stands_with_its_refusal_and_not_with_the_question():
    asked, refused = variants(
        user("And if it rains?"),
        assistant("Then the Fernhouse."),
        user("No, my father is bored by plants."),
        is_bounded=True,
    )

    assert "Then the Fernhouse." not in asked
    assert refused[:2] == ["Then the Fernhouse.", "No, my father is bored by plants."]


@pytest.mark.parametrize(("chars", "is_cut"), [(40, True), (39, False)])
def test_a_call_written_in_a_reply_is_found_by_its_first_40_characters(chars: int, *, is_cut: bool):
    call, _ = raw_call_and_result("bash", "x" * 60, "ok")
    text = f"I look. {'x' * chars} more"
    message = parse_message(json.dumps(call | {"content": text}).encode())

    assert (_without_calls(message) == "I look. ") == is_cut


def test_the_first_20000_characters_of_a_reply_are_read():
    assert len(_scanned_units("It is so. " * 2_100)) == 2_000
