"""Tests of what moves of varying texts gain."""

from fractions import Fraction

import msgspec
import pytest

from proxy.caches.regime import Regime
from proxy.prefix.layouts.gains import LayoutGains, VaryingText
from proxy.prefix.layouts.template_calls import LaterCalls, TemplateCalls
from proxy.prefix.prompts.prompt import PromptSlot

STABLE, SEMI, VARIABLE = PromptSlot.STABLE, PromptSlot.SEMI_STABLE, PromptSlot.VARIABLE
FREE = Regime(name="openai-interval", least=1_024, read=Fraction(1, 10))
PAID = Regime(
    name="anthropic-breakpoint",
    least=1_024,
    read=Fraction(1, 10),
    writes={"5m": Fraction(5, 4)},
    marks=4,
)
CONVERSATIONS = 20
#: Texts that are another's in each conversation, and in each call.
OWN = tuple((at, at) for at in range(CONVERSATIONS))
NEW = tuple((2 * at, 2 * at + 1) for at in range(CONVERSATIONS))
#: A document that may stay for some calls, before 3,000 tokens of rules.
DOCUMENT = VaryingText(size=4_000, behind=12_000, values=NEW)


def gains(
    *texts: VaryingText,
    regime: Regime = FREE,
    front: int = 0,
    tools: int = 0,
    first: float = 0.1,
    rate: float = 1.0,
) -> LayoutGains:
    """The gains at texts of which so many later calls have others."""
    later = LaterCalls(1.0 - first, length=8_000, before=6_000, earlier=4_000)
    changes = ((round(10 * rate), 10),) * CONVERSATIONS
    calls = TemplateCalls(tools=tools, front=front, first=first, later=(later,), changes=changes)
    return LayoutGains(calls, texts, regime)


def test_text_that_changes_per_call_lets_nothing_behind_it_be_read():
    gain = gains(DOCUMENT)

    assert gain.saved_tokens([STABLE]) == 0
    # In later calls 3,000 tokens of rules and 1,500 of the conversation, in first ones the rules.
    assert gain.saved_tokens([VARIABLE]) == pytest.approx(0.9 * (0.9 * 4_500 + 0.1 * 3_000), abs=40)


@pytest.mark.parametrize(("rate", "slot"), [(1.0, VARIABLE), (0.5, VARIABLE), (0.0, STABLE)])
def test_document_that_stays_is_worth_its_reads(rate, slot):
    assert gains(DOCUMENT, first=0.0, rate=rate).best_slots([VARIABLE]) == [slot]


def test_stable_text_gains_nothing_below_the_next_step_of_a_cache():
    steps = msgspec.structs.replace(FREE, block=2_048)
    name = VaryingText(size=400, behind=2_000, values=OWN)

    assert gains(name, front=8_400, first=1.0).best_slots([SEMI]) == [SEMI]
    assert gains(name, front=8_400, first=1.0, regime=steps).best_slots([SEMI]) == [STABLE]


def test_cache_of_whole_prompts_reads_a_call_less_of_the_conversation_behind_moved_text():
    whole = msgspec.structs.replace(FREE, name="prefix-unit")
    less = gains(DOCUMENT).saved_tokens([VARIABLE]) - gains(DOCUMENT, regime=whole).saved_tokens(
        [VARIABLE]
    )

    assert less == pytest.approx(0.9 * 0.9 * 500)


def test_paid_writes_are_taken_off_and_no_marks_are_set_where_they_cost_more():
    paid, free = (gains(DOCUMENT, regime=regime, rate=0.0) for regime in (PAID, FREE))

    assert 0 < paid.saved_tokens([SEMI]) < free.saved_tokens([SEMI])
    assert gains(DOCUMENT, regime=PAID).saved_tokens([STABLE]) == 0


def test_marks_read_tools_and_parted_text_before_what_varies_but_openai_marks_no_tools():
    openai = msgspec.structs.replace(PAID, name="openai-breakpoint")
    line = VaryingText(size=40, behind=400, values=NEW)

    # Its tokens of tools, and of front, at a tenth.
    assert gains(line, regime=PAID, tools=8_000).saved_tokens([STABLE]) == pytest.approx(1_800)
    assert gains(line, regime=PAID, front=8_000).saved_tokens([STABLE]) == pytest.approx(1_800)
    assert gains(line, regime=openai, tools=8_000).saved_tokens([STABLE]) < 0
    assert gains(line, regime=openai, front=8_000).saved_tokens([STABLE]) > 1_000


def test_words_of_a_move_count_where_nothing_is_read():
    short = VaryingText(size=40, behind=400, values=NEW)

    # A label of 6 tokens, a reference of 14 and a message of its own of 12.
    assert gains(short, front=400, first=1.0).saved_tokens([VARIABLE]) == -32
    assert gains(short, front=400, first=1.0).saved_tokens([SEMI]) == -20
    assert gains(short, front=400, first=1.0).best_slots([VARIABLE]) == [STABLE]


def test_text_of_few_values_is_read_already():
    values = tuple((index % 2, index % 2) for index in range(CONVERSATIONS))
    gain = gains(VaryingText(size=40, behind=12_000, values=values))

    assert gain.saved_tokens([STABLE]) > 0.5 * gain.saved_tokens([VARIABLE])


def test_texts_of_few_values_each_are_not_read_where_all_of_them_together_are_others():
    row, column = (
        tuple((index % 5,) for index in range(20)),
        tuple((index // 5,) for index in range(20)),
    )
    one, other = (VaryingText(size=40, behind=12_000, values=values) for values in (row, column))

    assert gains(one, first=1.0).saved_tokens([STABLE]) > 1_000
    assert gains(one, other, first=1.0).saved_tokens([STABLE, STABLE]) < 3_000
    assert gains(one, other, first=1.0).saved_tokens([SEMI, SEMI]) > 5_000
