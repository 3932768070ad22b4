import base64
import gzip
from functools import cache
from importlib import util
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.vocabulary import (
    Tokenizer,
    Vocabulary,
    _extension,
    _slices,
    is_published,
    vocabulary,
)
from tests.examples import examples

_SLICE_CHARS = 16_384

_FILES = Path(__file__).resolve().parents[3] / "../shared/data/tokenizer"

# Source: tiktoken_ext/openai_public.py, 0.14.0.
_LETTERS = r"[^\r\n\p{L}\p{N}]?"
_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_PATTERNS = {
    "cl100k_base": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+|"
        r" ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
    "o200k_base": "|".join(
        [
            _LETTERS + r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + _SUFFIX,
            _LETTERS + r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + _SUFFIX,
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        ]
    ),
}
_NAMES: list[Vocabulary] = ["o200k_base", "cl100k_base"]

NASTY = [
    "",
    " ",
    "  \n\n \t x",
    "<|endoftext|><|fim_prefix|> <|endofprompt|>",
    "I'LL we'Ve 'S \u017f don't",
    "123456789 ١٢٣٤ ²³",
    "naïve café ﬁ e\u0301\u0301",
    "你好\uff0c世界。 日本語テキスト",
    "👩‍👩‍👧‍👦🏳️‍🌈 \U0001f1e9\U0001f1ea",
    "\x00\x1c\x1d\x1e\x1f\x85\u180e\u200b\ufeff",
    "a\ud800b \udc00",
    "//\r\n///\n\r/ !!!\n\n\n/",
    "x" * 5000,
    " " * 5000 + "\n" * 50,
    '{"a":[1,2.5e-3,null],"b":"\\u00e9\\n"}' * 20,
]

# Drawn as numbers: Hypothesis' own table of characters takes seconds to build on first use.
characters = (st.integers(0, 0x2FF) | st.integers(0, 0x10FFFF)).map(chr)
texts = st.lists(characters, max_size=100).map("".join) | st.lists(
    st.sampled_from([" ", "\n", "\r\n", "/", "'s", "'LL", "Ab", "aB", "7", "é", "中", "!", "\x85"]),
    max_size=60,
).map("".join)


@cache
def tokenizer(name: Vocabulary) -> Tokenizer:
    return Tokenizer(name)


@cache
def reference(name: Vocabulary) -> tiktoken.Encoding:
    return _encoding(name, file_of_package(name))


def file_of_package(name: Vocabulary) -> bytes:
    package = util.find_spec("bpe_openai")
    assert package is not None
    assert package.origin is not None
    return gzip.decompress(
        Path(package.origin).with_name("data").joinpath(f"{name}.tiktoken.gz").read_bytes()
    )


def _encoding(name: Vocabulary, ranks: bytes) -> tiktoken.Encoding:
    pairs = (line.split() for line in ranks.splitlines() if line)
    return tiktoken.Encoding(
        name,
        pat_str=_PATTERNS[name],
        mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in pairs},
        special_tokens={"<|endoftext|>": 300_000},
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("text", NASTY)
def test_nasty_texts_become_the_tokens_tiktoken_makes(name: Vocabulary, text: str) -> None:
    expected = reference(name).encode_ordinary(text)

    assert tokenizer(name).encode(text) == expected
    assert tokenizer(name).count(text) == len(expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", _NAMES)
@given(text=texts)
def test_any_text_becomes_the_tokens_tiktoken_makes(name: Vocabulary, text: str) -> None:
    expected = reference(name).encode_ordinary(text)

    assert tokenizer(name).encode(text) == expected
    assert tokenizer(name).count(text) == len(expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", _NAMES)
@examples(18)
@given(piece=texts.filter(bool), tail=texts)
def test_a_long_text_counts_the_same_although_it_is_cut(
    name: Vocabulary, piece: str, tail: str
) -> None:
    text = (piece * (2 * _SLICE_CHARS // len(piece) + 1))[: 2 * _SLICE_CHARS] + tail

    assert tokenizer(name).encode(text) == reference(name).encode_ordinary(text)


@pytest.mark.parametrize("spaces", range(1, 7))
def test_a_long_text_is_not_cut_between_spaces(spaces: int) -> None:
    text = ("a" * (_SLICE_CHARS - 3) + " " * spaces + "b " + "\n" * spaces + " c") * 2

    assert tokenizer("o200k_base").encode(text) == reference("o200k_base").encode_ordinary(text)


@pytest.mark.slow
def test_a_text_without_a_place_to_cut_is_counted_whole() -> None:
    text = "ab" * 600_000

    assert tokenizer("o200k_base").count(text) == len(reference("o200k_base").encode_ordinary(text))


@pytest.mark.parametrize("package", ["absent", "json"])
def test_without_the_package_the_error_says_what_to_install(package: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="bpe-openai"):
        _extension(package)


@pytest.mark.slow
@pytest.mark.parametrize("name", _NAMES)
def test_the_packaged_ranks_are_the_published_ones(name: Vocabulary) -> None:
    published = _FILES / f"{name}.tiktoken"
    if not published.is_file():
        pytest.skip("The published vocabulary files are not here.")

    assert file_of_package(name).split() == published.read_bytes().split()
    text = "\n".join(part for part in NASTY)
    expected = _encoding(name, published.read_bytes()).encode_ordinary(text)
    assert tokenizer(name).encode(text) == expected


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-4o-mini", "o200k_base"),
        ("gpt-4.1-nano-2025-04-14", "o200k_base"),
        ("gpt-4.5-preview", "o200k_base"),
        ("gpt-5.6-sol", "o200k_base"),
        ("gpt-6-astra", "o200k_base"),
        ("o1", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("o4-mini", "o200k_base"),
        ("chatgpt-4o-latest", "o200k_base"),
        ("claude-opus-5-5", "o200k_base"),
        ("", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4-0613", "cl100k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("openai/gpt-3.5-turbo", "cl100k_base"),
        ("gpt-35-turbo", "cl100k_base"),
        ("text-embedding-3-small", "cl100k_base"),
        ("text-embedding-ada-002", "cl100k_base"),
        ("ft:gpt-3.5-turbo-0125:acme::1", "cl100k_base"),
        ("ft:gpt-4o-mini-2024-07-18:acme::1", "o200k_base"),
    ],
)
def test_each_model_counts_with_its_own_vocabulary(model: str, name: Vocabulary) -> None:
    assert vocabulary(model) == name


@pytest.mark.parametrize(
    "model",
    [
        "gpt-3.5-turbo",
        "gpt-35-turbo-16k",
        "gpt-4",
        "gpt-4-turbo",
        "gpt-4o",
        "openai/gpt-4o-mini-2024-07-18",
        "gpt-4.1-mini",
        "gpt-4.5-preview",
        "gpt-5",
        "gpt-5-mini-2025-08-07",
        "o1",
        "o3-mini",
        "o4-mini",
        "chatgpt-4o-latest",
        "ft:gpt-4o-2024-08-06:acme::1",
        "text-embedding-3-small",
        "text-embedding-ada-002",
    ],
)
def test_a_vocabulary_that_is_listed_is_published(model: str) -> None:
    assert is_published(model)
    assert tiktoken.encoding_name_for_model(model.rpartition("/")[2]) == vocabulary(model)


@pytest.mark.parametrize(
    "model",
    ["", "gpt-5.6-sol", "gpt-6", "gpt-4x", "gpt-40", "gpt-oss-20b", "claude-opus-5-5", "llama-3"],
)
def test_a_vocabulary_that_is_only_taken_for_a_models_own_is_not(model: str) -> None:
    assert not is_published(model)


def test_a_text_is_counted_in_parts_of_16384_characters_that_end_before_a_space():
    assert [len(part) for part in _slices("word " * 10_000)] == [16_384, 16_385, 16_385, 846]
