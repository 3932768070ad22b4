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
    LongText,
    SeenText,
    SeenTexts,
    TextOwner,
    leading_lines,
    leading_text,
    split_lines,
)
from proxy.prefix.prediction.prefix_chains import PrefixChainIndex
from proxy.prefix.prediction.sent_call import SentCall, is_in_conversation
from proxy.prefix.prompts.fingerprints import split_fingerprints
from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.prompt import BYTES_PER_TOKEN
from tests.examples import examples
from tests.fakes.handbook import handbook
from tests.proxy.caches.prompts import tokens
from tests.proxy.prefix.sent_calls import DEEPSEEK, VLLM, body, sent_chat

MAX_LINES = 512

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


def two_lines(number: int) -> SentCall:
    return sent_chat(DEEPSEEK, ("system", f"line {number}\n{number}"), place=b"here")


def test_indexes_count_the_bytes_of_texts_lines_and_units():
    texts = LeadingTexts()
    texts.record_call(two_lines(0), 0.0)
    assert [index.size_bytes for index in texts.indexes] == [250 + 2 * 12, 0]
    texts.keep_units(two_lines(0), 0, 1.0)

    assert [index.size_bytes for index in texts.indexes] == [250 + 2 * 12, 250 + 2 * 8]


def test_the_latest_three_templates_of_a_place_are_remembered():
    texts = LeadingTexts()
    for number in range(4):
        texts.record_call(two_lines(number), float(number))

    starts = [texts.shared_starts(two_lines(number), 0) for number in range(4)]
    assert [[time for _, time in start] for start in starts] == [[], [1.0], [2.0], [3.0]]


def test_the_latest_eight_units_of_a_place_are_kept():
    texts = LeadingTexts()
    for number in range(9):
        for _ in range(2):
            texts.record_call(two_lines(number), float(number))
            texts.keep_units(two_lines(number), 0, float(number))

    assert [len(list(texts.units(two_lines(number), 0))) for number in range(9)] == [0] + [1] * 8


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


@pytest.mark.parametrize(("size", "leading"), [(2**18 - 100, [0]), (2**18, [])])
def test_a_text_of_more_than_256_kibibytes_is_not_taken_apart(size: int, leading: list[int]):
    prompt, blocks = body(("system", "a" * size), ("user", "b"))

    assert list(leading_lines(prompt, blocks)) == leading


def test_256_texts_of_a_prompt_are_taken_apart():
    assert len(leading_lines(*body(*[("system", "a")] * 300))) == 256


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


def lines(count: int, letter: str = "a") -> bytes:
    """So many lines of a text in JSON, of ten bytes each."""
    return (letter * 8 + "\\n").encode() * count


def seen_after(earlier: bytes, words: bytes, *, grows: bool = False) -> SeenText:
    texts, owner = SeenTexts(), TextOwner(b"before", b"conversation")
    texts.split(1, long_text(earlier, grows=grows), owner)
    return texts.split(1, long_text(words, grows=grows), owner)


def long_text(words: bytes, *, grows: bool) -> LongText:
    return LongText(0, 0, words, hash(words), grows, is_last=True)


@pytest.mark.parametrize(
    ("shared", "splits"),
    [(103, ()), (104, (1_040,)), (144, (1_300,)), (160, (1_560,)), (4_200, (41_470,))],
)
def test_a_text_is_parted_at_chunks_of_256_bytes_or_a_64th_from_1024_bytes_on(
    shared: int, splits: tuple[int, ...]
):
    one, other = (lines(shared) + lines(60, letter) for letter in "bc")

    assert seen_after(one, other).splits == splits


@pytest.mark.parametrize(
    ("shared", "splits"),
    [(102, ()), (160, (1_030,)), (205, (1_030,)), (206, (2_060,)), (4_200, (41_050,))],
)
def test_a_growing_text_that_changed_is_parted_at_chunks_of_1024_bytes_or_a_16th(
    shared: int, splits: tuple[int, ...]
):
    one, other = (lines(shared) + lines(60, letter) for letter in "bc")

    assert seen_after(one, other, grows=True).splits == splits


@pytest.mark.parametrize(("length", "splits"), [(4_163, (1_040,)), (4_164, ())])
def test_a_text_is_parted_once_a_quarter_of_it_is_shared(length: int, splits: tuple[int, ...]):
    words = lines(104) + b"c" * (length - 1_040)

    assert seen_after(lines(104) + lines(60, "b"), words).splits == splits


@pytest.mark.parametrize(("closing", "splits"), [(12, (1_500, 2_000)), (13, (1_030,))])
def test_a_text_grows_before_up_to_twelve_lines_that_close_it(
    closing: int, splits: tuple[int, ...]
):
    end = b"".join(b"\\nclosing%d" % line for line in range(closing))

    assert seen_after(lines(150) + end, lines(150) + lines(50, "d") + end, grows=True).splits == (
        splits
    )


def test_a_text_is_parted_at_512_places_at_most():
    texts, owner = SeenTexts(), TextOwner(b"before", b"conversation")
    splits = [
        len(texts.split(1, long_text(lines(120 + turn), grows=True), owner).splits)
        for turn in range(520)
    ]

    assert splits[510:515] == [510, 511, 512, 512, 512]


@pytest.mark.parametrize(
    ("words", "weight"),
    [
        (b"short", 110 + 700 + 220),
        (lines(30), 110 + (700 + 12 + 220) // 2),
        (lines(104) + lines(60, "c"), 110 + (700 + 6 * 12 + 220 + 36) // 7),
    ],
    ids=["no chunk", "one chunk", "six chunks, and parted"],
)
def test_a_seen_text_counts_bytes_of_its_keys_chunks_and_splits(words: bytes, weight: int):
    assert seen_after(lines(104) + lines(60, "b"), words).weight == weight
