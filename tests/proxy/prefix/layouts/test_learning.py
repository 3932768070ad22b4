"""Layouts found in what a feature sends."""

from fractions import Fraction
from itertools import islice
from time import thread_time

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.caches.regime import Regime
from proxy.prefix.layouts.layout import Layout, instructions
from proxy.prefix.layouts.learning import FeatureLearner, ProposalTarget
from proxy.prefix.prompts.prompt import PromptSlot, parse_prompt
from tests.examples import examples
from tests.fakes.badly_built import raw_bodies
from tests.fakes.handbook import handbook
from tests.fakes.planned_body_check import assert_nothing_lost
from tests.fakes.recorded import KINDS, PATHS
from tests.proxy.prefix.arrangement_fixtures import apply_layout
from tests.proxy.prefix.sent_calls import fingerprint

PLAIN = Regime(name="openai-interval", least=1024, read=Fraction(1, 10))
MARKS = Regime(name="anthropic-breakpoint", least=1024, read=Fraction(1, 10), marks=4)
PRICE = Fraction(3000)
RULES = handbook(30, "learning").split("\n")


TARGET = ProposalTarget(fresh=PRICE, regime=PLAIN)
LONG = ProposalTarget(fresh=PRICE, regime=msgspec.structs.replace(PLAIN, least=4096))


def learner(texts, *, conversations=8, calls=4, tools=0, shows=False):
    """One that saw ``texts(conversation, call)``."""
    learner = FeatureLearner(fingerprint, tools=tools, shows=shows)
    for number in range(conversations):
        for call in range(calls):
            identity = fingerprint(str(number).encode())
            learner.samples.add_call(
                texts(number, call), identity, 60.0 * call, first=call == 0, history=call * 400
            )
    return learner


def template(*above, end=()):
    return ["\n".join([RULES[0], *above, *RULES[1:], *end])]


def found(texts, regime=PLAIN, **more):
    layout = learner(texts, **more).proposal(ProposalTarget(fresh=PRICE, regime=regime))
    return [(move.slot, move.shows) for move in layout.moves] if layout else None


def test_lines_that_vary_are_found_each_with_its_slot():
    def texts(number, call):
        return template(f"Time: {number} {call}", f"User: {number}", f"Place: /home/{number}")

    assert found(texts) == [
        (PromptSlot.VARIABLE, "line 2"),
        (PromptSlot.SEMI_STABLE, "lines 3 to 4"),
    ]


@pytest.mark.parametrize(("tools", "is_worthwhile"), [(18_500, True), (19_900, False)])
def test_layout_must_save_a_tenth_of_what_a_call_costs(tools, is_worthwhile):
    def texts(number, call):
        return template(end=[f"Time: {number} {call}"])

    assert (found(texts, tools=tools) is not None) is is_worthwhile


def test_words_are_shown_where_they_may_be():
    def texts(number, call):
        return template(f"Current time: {number} {call}")

    assert found(texts, shows=True) == [(PromptSlot.VARIABLE, "line 2 `Current time: …`")]


def test_moves_carry_evidence_and_money():
    def texts(number, call):
        return template(f"Time: {number} {call}")

    layout = learner(texts).proposal(TARGET)
    (move,) = layout.moves
    bytes_behind = len("\n".join(RULES[1:])) + 1 + 600

    assert (move.calls, move.conversations, move.values) == (32, 8, 24)
    assert layout.version == 0
    assert move.saving == pytest.approx(bytes_behind / 4 * 2700 * 1000, rel=0.02)


def test_text_that_varies_per_call_at_the_end_keeps_the_conversation_from_being_read():
    def texts(number, call):
        return template(end=[f"Time: {number} {call}"])

    assert found(texts) == [(PromptSlot.VARIABLE, f"line {len(RULES) + 1}")]


def test_semi_stable_text_at_the_end_gains_nothing_where_any_length_is_read():
    def texts(number, call):
        return template(end=[f"User: {number}"])

    assert found(texts) is None


def test_semi_stable_text_at_the_end_gains_nothing_where_long_texts_are_parted_before_it():
    def texts(number, call):
        return template(end=[f"User: {number}"])

    assert found(texts, MARKS) is None


def test_lines_that_tell_nothing_between_two_moves_stay():
    def texts(number, call):
        return template(f"Time: {number} {call}", "---", f"Date: {number} {call}")

    assert found(texts) == [(PromptSlot.VARIABLE, "line 2"), (PromptSlot.VARIABLE, "line 4")]


def test_passages_of_any_number_are_one_move():
    def texts(number, call):
        return template(*[f"Passage {number} {line}" for line in range(1 + number % 3)])

    ((slot, shows),) = found(texts)
    assert slot is PromptSlot.SEMI_STABLE
    assert shows in {"line 2", "lines 2 to 3", "lines 2 to 4"}


def test_passages_are_known_even_where_the_first_call_has_none():
    def texts(number, call):
        return template(*[f"Passage {number} {line}" for line in range(call % 2)])

    assert found(texts, shows=True)[0][0] is PromptSlot.VARIABLE


def test_lines_in_another_order_each_time_are_one_move():
    skills = [f"Skill {name}" for name in "abcdefghijkl"]

    def texts(number, call):
        turn = (5 * number + call) % 12
        return template(*skills[turn:], *skills[:turn])

    assert found(texts, conversations=12) == [(PromptSlot.VARIABLE, "lines 2 to 13")]


def test_one_shot_calls_need_more_conversations():
    def texts(number, call):
        return template(f"Question {number}")

    assert found(texts, conversations=9, calls=1) is None
    assert found(texts, conversations=10, calls=1) == [(PromptSlot.SEMI_STABLE, "line 2")]


def test_few_calls_are_no_evidence():
    def texts(number, call):
        return template(f"Topic: {number} {call}")

    assert found(texts, conversations=1, calls=11) is None
    assert found(texts, conversations=4, calls=2) is None
    assert found(texts, conversations=4, calls=3) is not None


@pytest.mark.parametrize(
    "moment", ["12:0{call}:07", "Request 6fa459ea-ee8a-3ca4-894e-db77e160355{call}"]
)
def test_a_clock_or_a_uuid_that_changed_in_two_calls_moves_at_the_third(moment):
    def texts(number, call):
        return template(moment.format(call=call), f"Topic: {number}")

    assert found(texts, conversations=1, calls=1) is None
    assert found(texts, conversations=1, calls=2) == [(PromptSlot.VARIABLE, "line 2")]


def test_a_name_and_a_date_of_two_customers_move_for_the_third():
    def texts(number, call):
        return template(f"Customer: {400_000 + number}", f"Date: 2026-11-0{1 + number}")

    assert found(texts, conversations=2, calls=1) == [(PromptSlot.SEMI_STABLE, "lines 2 to 3")]


@pytest.mark.parametrize("end", [" ", "\n"])
def test_a_clock_above_rules_that_repeat_themselves_moves(end: str):
    def texts(number, call):
        return [f"It is 12:0{number}:1{call}.\n" + f"Be brief, kind and exact to all.{end}" * 300]

    assert found(texts, conversations=3, calls=2) == [(PromptSlot.VARIABLE, "line 1")]


def test_a_clock_varies_per_call_also_before_a_conversation_went_on():
    def texts(number, call):
        return template(f"It is 12:0{number}.")

    assert found(texts, conversations=3, calls=1) == [(PromptSlot.VARIABLE, "line 2")]


@pytest.mark.parametrize(("conversations", "calls"), [(3, 1), (1, 3)])
def test_a_clock_beside_a_ticket_number_moves_at_the_third_call(conversations, calls):
    def texts(number, call):
        return template(f"Ticket 47{number}{call}", f"It is 12:{number}{call}.")

    assert found(texts, conversations=conversations, calls=calls) is not None


def test_a_clock_behind_text_that_changes_too_waits_for_more_calls():
    def texts(number, call):
        return template(f"Passage {number} {call}", RULES[-1] + " Mind it.", f"12:0{call}")

    assert found(texts, conversations=1, calls=4) is None


@pytest.mark.parametrize(("turns", "moves"), [(1, True), (3, False)])
def test_a_document_moves_only_where_it_seldom_stays_through_a_turn(turns, moves):
    """A document is as long as the conversation: while it stays, both are read in place."""
    saw = FeatureLearner(fingerprint)
    for number in range(8):
        for call in range(6):
            document = (
                f"Found {number} {call // turns} line {index} of all" for index in range(100)
            )
            saw.samples.add_call(
                template(end=document),
                fingerprint(b"%d" % number),
                60.0 * call,
                first=not call,
                history=600 * call,
            )

    assert (saw.proposal(TARGET) is not None) is moves


def test_text_behind_a_few_values_is_read_already_and_saves_less():
    def saving_of(line):
        saw = learner(lambda number, call: template(line.format(number, call)), conversations=9)
        return sum(move.saving for move in (saw.proposal(TARGET) or Layout()).moves)

    assert 0 < saving_of("Step {1} of all.") < saving_of("Step {0}.{1} of all.") / 3


def test_a_cache_of_whole_prompts_reads_the_conversation_a_call_later():
    def saving_of(regime):
        saw = FeatureLearner(fingerprint)
        for number in range(4):
            for call in range(6):
                text, who = template(f"Topic: {number} {call}"), fingerprint(b"%d" % number)
                saw.samples.add_call(text, who, 60.0, first=not call, history=4_000 * call)
        layout = saw.proposal(msgspec.structs.replace(TARGET, regime=regime)) or Layout()
        return sum(move.saving for move in layout.moves)

    later = saving_of(msgspec.structs.replace(PLAIN, name="prefix-unit"))

    assert 0.7 < later / saving_of(PLAIN) < 0.9


def test_text_that_varies_in_two_places_of_a_single_conversation_is_two_moves():
    def texts(number, call):
        return template(f"Time: {number} {call}", RULES[-1] + " Mind it.", f"Count: {call}")

    moves = learner(texts, conversations=1, calls=20).proposal(TARGET).moves
    placed = apply_layout(prompt_of(texts(9, 9)[0]), Layout(moves=moves), fingerprint, late=True)

    assert len(moves) == 2
    assert not placed.notes
    assert b"Count: 9" in placed.prompt.messages[-1]


def test_passages_of_any_number_keep_their_neighbours():
    def texts(number, call):
        return template(*(f"Passage {call} {index}" for index in range(1 + call % 3)))

    (move,) = learner(texts, conversations=1, calls=20).proposal(TARGET).moves

    assert move.of == 0
    assert move.before is not None


def prompt_of(text):
    messages = [{"role": "system", "content": text}, {"role": "user", "content": "Hi"}]
    return parse_prompt(orjson.dumps({"messages": messages}))


def test_a_text_of_few_values_stays():
    def texts(number, call):
        return template(f"Language {number % 2}")

    assert found(texts, conversations=20) is None


def test_a_text_that_changes_seldom_within_a_conversation_is_semi_stable():
    def texts(number, call):
        return template(f"User {number} {call // 15}")

    assert found(texts, conversations=8, calls=16) == [(PromptSlot.SEMI_STABLE, "line 2")]


def test_instructions_below_the_minimum_are_left_alone():
    def texts(number, call):
        return [f"Time {number} {call}\nBe kind to everybody who asks.\n"]

    assert found(texts) is None
    assert found(texts, tools=9000) == [(PromptSlot.VARIABLE, "line 1")]


def test_where_few_calls_are_long_enough_to_be_cached_those_may_pay_for_all():
    def savings(*lengths):
        saw = FeatureLearner(fingerprint)
        for number in range(8):
            for call, history in enumerate((0, *lengths)):
                saw.samples.add_call(
                    template(f"Time: {number} {call}"),
                    fingerprint(b"%d" % number),
                    60.0 * call,
                    first=not call,
                    history=history,
                )
        layout = saw.proposal(LONG)
        return [move.saving for move in layout.moves] if layout else None

    assert savings(*[400] * 8) is None
    some, all_ = savings(*[400] * 6, 40_000, 40_000), savings(*[40_000] * 8)
    assert some is not None
    assert all_ is not None
    assert some[0] < all_[0] / 3


def test_instructions_that_are_the_same_are_left_alone():
    assert found(lambda number, call: template()) is None


def test_each_template_has_its_moves():
    def texts(number, call):
        if number % 2:
            return template(f"Time: {number} {call}")
        return ["\n".join([f"Day: {number}", *handbook(30, "other").split("\n")])]

    assert found(texts, conversations=24) == [
        (PromptSlot.SEMI_STABLE, "line 1"),
        (PromptSlot.VARIABLE, "line 2"),
    ]


@pytest.mark.slow
@examples(10)
@given(st.randoms(use_true_random=False))
def test_the_order_of_conversations_does_not_matter(roll):
    calls = [(number, call) for number in range(40) for call in range(3)]
    layouts = []
    for order in (calls, sorted(calls, key=lambda _: roll.random())):
        one = FeatureLearner(fingerprint)
        for number, call in order:
            one.samples.add_call(
                template(f"Time: {number} {call}", f"User: {number}"),
                fingerprint(str(number).encode()),
                0.0,
                first=call == 0,
            )
        layouts.append([(m.slot, m.at, m.before) for m in (one.proposal(TARGET) or Layout()).moves])

    assert layouts[0] == layouts[1] != []


def test_a_known_text_costs_little():
    one = FeatureLearner(fingerprint)
    text = "".join(f"line {number} of a long policy in words\n" for number in range(600))
    times = []
    for _ in range(50):
        start = thread_time()
        one.samples.add_call([text], b"a", 0.0, first=False)
        times.append(thread_time() - start)

    assert len(text) > 20_000
    assert sorted(times)[len(times) // 2] < 300e-6


@pytest.mark.parametrize("kind", ["tau", "agentdojo"])
def test_the_lines_above_recorded_instructions_are_found_and_nothing_is_lost(kind):
    if not PATHS[kind].exists():
        pytest.skip(f"no recordings at {PATHS[kind]}")
    many = list(islice(KINDS[kind](PATHS[kind]), 14))
    one = FeatureLearner(fingerprint, tools=4000, shows=True)
    calls = [(fingerprint(dialogue.name.encode()), list(raw_bodies(dialogue))) for dialogue in many]
    for identity, bodies in calls:
        for number, raw in enumerate(bodies):
            texts = [text for _, text in instructions(parse_prompt(raw))]
            one.samples.add_call(texts, identity, 0.0, first=number == 0, history=len(raw))
    layout = one.proposal(TARGET)

    assert layout is not None
    assert layout.moves[0].shows == "line 1 `Current time: …`"
    assert layout.moves[0].slot is PromptSlot.VARIABLE
    assert all(move.shows.startswith(("line 2", "lines 2", "line 3")) for move in layout.moves[1:])
    for _, bodies in calls[:5]:
        start: tuple[bytes, ...] = ()
        for raw in bodies:
            arranged = apply_layout(parse_prompt(raw), layout, fingerprint, late=True)
            assert arranged.notes == ()
            assert arranged.prompt.messages[: len(start)] == start
            start = arranged.prompt.messages[: len(arranged.prompt.messages) - arranged.prompt.tail]
            assert_nothing_lost(orjson.dumps(orjson.loads(raw)), arranged.prompt.render())
