"""Texts that begin alike: how far a new one is read, and units that end within them."""

from itertools import chain

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.caches.port import CachedPrompt, TokenBlock
from proxy.caches.regime import Regime
from proxy.caches.regimes import build_cache
from proxy.prefix.prediction.leading_texts import (
    LeadingTexts,
    leading_lines,
    leading_text,
    split_lines,
)
from proxy.prefix.prediction.prefix_chains import PrefixChainIndex
from proxy.prefix.prediction.sent_call import (
    DIGEST_BYTES,
    SentCall,
    is_in_conversation,
    shared_length,
    split_fingerprints,
)
from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.prompt import BYTES_PER_TOKEN
from tests.examples import examples
from tests.fakes.handbook import handbook
from tests.proxy.caches.prompts import tokens
from tests.proxy.prefix.sent_calls import DEEPSEEK, VLLM, body, sent_chat

MAX_LINES = 512
MAX_TEXT_BYTES = 2**18

RULES = handbook(20, "leading texts")
OTHER_RULES = handbook(20, "other leading texts")


def call(number: int, rules: str = RULES, regime: Regime = DEEPSEEK) -> SentCall:
    document = f"Found {number}.\n{handbook(3, f'document {number}')}"
    return sent_chat(
        regime, ("system", f"{rules}\n{document}"), ("user", f"Question {number}?"), place=b"here"
    )


def expected_reads(*calls: SentCall, gap: float = 20.0) -> list[int]:
    index, lengths = PrefixChainIndex(), []
    for number, sent in enumerate(calls):
        lengths.append(index.expect_read(sent, gap * number).tokens)
        index.record_call(sent, None, gap * number)
    return lengths


def test_cache_of_whole_prompts_reads_what_two_earlier_texts_begin_with():
    rules = len(RULES) // BYTES_PER_TOKEN
    first, second, third, fourth = expected_reads(*map(call, range(4)))

    assert (first, second) == (0, 0)
    assert third == fourth == pytest.approx(rules, abs=128)


def test_texts_of_two_templates_by_turns_are_each_read():
    templates = [RULES, OTHER_RULES]
    reads = expected_reads(*(call(number, templates[number % 2]) for number in range(8)))

    assert min(reads[4:]) > len(RULES) // BYTES_PER_TOKEN - 128


def test_unit_within_a_text_dies_with_its_lifetime():
    assert expected_reads(*map(call, range(4)), gap=DEEPSEEK.lifetimes[""] + 1.0) == [0] * 4


def test_cache_of_any_length_reads_a_text_as_far_as_one_of_the_latest_templates():
    calls = (call(number, [RULES, OTHER_RULES][number % 2], VLLM) for number in range(4))

    assert min(expected_reads(*calls)[2:]) > len(RULES) // BYTES_PER_TOKEN - 64


@examples(30)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), min_size=3, max_size=12))
def test_expected_reads_of_whole_prompts_are_their_caches(parts):
    """In lines of 64 tokens; the prediction also holds the message's own JSON."""
    index, cache = PrefixChainIndex(), build_cache("prefix-unit")
    for number, (rules, document) in enumerate(parts):
        lines = [f"{rules} rule {at} ".ljust(255, ".") for at in range(8)]
        lines += [f"document {document} line {at} ".ljust(255, ".") for at in range(4)]
        sent = sent_chat(DEEPSEEK, ("system", "\n".join(lines)), place=b"here")
        whole = CachedPrompt(
            blocks=(
                TokenBlock(
                    role="system",
                    message=0,
                    tokens=tuple(chain(*(tokens(line, 64) for line in lines))),
                ),
            )
        )
        now = 20.0 * number

        assert index.expect_read(sent, now).tokens == pytest.approx(
            cache.serve(whole, now).read, abs=64
        )
        cache.begin_answer(whole, now)
        index.record_call(sent, None, now)


@given(st.lists(st.integers(0, 2), max_size=9), st.lists(st.integers(0, 2), max_size=9))
def test_shared_length_is_that_of_the_common_start(one, other):
    rows = [b"".join(bytes([value]) * DIGEST_BYTES for value in row) for row in (one, other)]
    same = next(
        (index for index, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )

    assert shared_length(*rows) == same * DIGEST_BYTES


def test_indexes_count_the_bytes_of_the_places_they_remember():
    texts = LeadingTexts()
    sizes = []
    for number in range(3):
        texts.record_call(sent_chat(DEEPSEEK, ("system", RULES), place=b"%d" % number), 0.0)
        sizes.append(sum(index.size_bytes for index in texts.indexes))

    assert 0 < sizes[0] == sizes[1] - sizes[0] == sizes[2] - sizes[1]


@given(st.text())
def test_split_lines_concatenate_to_the_text(words):
    assert "".join(split_lines(words)) == words


def test_the_number_of_split_lines_is_bounded():
    assert len(split_lines("\n" * 5_000)) == MAX_LINES + 1


def test_the_lines_of_leading_texts_are_known_by_block():
    prompt, blocks = body(("system", "one\ntwo"), ("user", "three"), tools=("t",))

    leading = leading_lines(prompt, blocks)

    assert list(leading) == [1]
    assert list(leading[1].sizes) == [4, 3]
    ends = leading_lines(*body(("system", "zero\ntwo")))
    one, two = split_fingerprints(leading[1].digests)
    assert split_fingerprints(ends[0].digests)[1] == two != one
    assert is_in_conversation(blocks[2])


def test_a_text_that_is_too_large_is_not_taken_apart():
    prompt, blocks = body(("system", "a" * MAX_TEXT_BYTES), ("user", "b"))

    assert leading_lines(prompt, blocks) == {}


def test_a_part_that_is_no_text_has_no_words():
    prompt, blocks = body(("system", "a"), ("user", "b"))
    picture = msgspec.json.encode({"role": "system", "content": [{"type": "image_url"}]})
    prompt = msgspec.structs.replace(prompt, messages=(picture,))

    assert leading_text(prompt, blocks[0]) == ""


def test_a_block_whose_message_cannot_be_read_is_unplannable():
    prompt, blocks = body(("system", "a"), ("user", "b"))
    prompt = msgspec.structs.replace(prompt, messages=(b"1",))

    with pytest.raises(Unplannable):
        leading_lines(prompt, blocks)
