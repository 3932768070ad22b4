"""The rules of documents: the README stays short, and so does every sentence."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.records.receipt import Receipt
from tests.fakes.source_trees import PACKAGES, ROOT

MAX_README_LINES = 200
MAX_SENTENCE_WORDS = 35
#: Prompts that the demo sends to models, some with code in them: no documentation.
PROMPTS = ROOT / "proxy/tools/demo/texts"
_FENCE = re.compile(r"^ *(```+|~~~+).*?^ *\1 *$", re.DOTALL | re.MULTILINE)
_TABLE_ROW = re.compile(r"^ *\|.*$", re.MULTILINE)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
#: An item of a list begins a paragraph of its own.
_ITEM = re.compile(r"^[ >]*(?:[-*+]|\d+[.)]) +", re.MULTILINE)
_PARAGRAPH_END = re.compile(r"\n[ >]*\n")
#: A stop, what closes with it (a quote, a bracket, code or stress), and a space.
_SENTENCE_END = re.compile(r"(?<=[.!?])[)\]\"'`*_”]*\s+")


def documents() -> list[Path]:
    """Each document, by path.

    The changelog is no text to read through: an entry is one line, whatever it names. Its sentences
    are not counted.
    """
    folders = (ROOT / ".github", *(ROOT / name for name in (*PACKAGES, "tests")))
    within = [path for folder in folders for path in folder.rglob("*.md")]
    return sorted([ROOT / "README.md", *(path for path in within if PROMPTS not in path.parents)])


def sentences(text: str) -> Iterator[str]:
    """Each sentence of a Markdown text outside code blocks and tables."""
    prose = _TABLE_ROW.sub("\n", _FENCE.sub("\n", text))
    blocks = _ITEM.sub("\n\n", _HEADING.sub(r"\n\n\1\n\n", prose))
    for paragraph in _PARAGRAPH_END.split(blocks):
        for sentence in _SENTENCE_END.split(paragraph):
            if words := sentence.split():
                yield " ".join(words)


def test_the_readme_stays_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf8").splitlines()

    assert len(lines) <= MAX_README_LINES


def test_sentences_of_documents_are_short() -> None:
    long = [
        f"{path.relative_to(ROOT)}: {len(sentence.split())} words: {sentence[:80]}"
        for path in documents()
        for sentence in sentences(path.read_text(encoding="utf8"))
        if len(sentence.split()) > MAX_SENTENCE_WORDS
    ]

    assert long == []


def test_the_reference_of_receipts_names_each_field() -> None:
    text = (ROOT / "proxy/api/README.md").read_text(encoding="utf8")
    section = text.partition("\n## Receipts\n")[2].partition("\n### ")[0]

    assert set(Receipt.__struct_fields__) - set(re.findall(r"`(\w+)`", section)) == set()


def test_documents_are_found_in_every_package_and_hidden_folder() -> None:
    paths = {path.relative_to(ROOT).as_posix() for path in documents()}

    assert {"README.md", ".github/CONTRIBUTING.md", "tests/bench/README.md"} < paths
    assert {f"{package}/README.md" for package in ("compaction", "slo", "proxy")} < paths


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One two. Three\nfour? Five", ["One two.", "Three four?", "Five"]),
        ("It is 0.5 s. Yes", ["It is 0.5 s.", "Yes"]),
        ("Run `make a .` Then `b`.", ["Run `make a .", "Then `b`."]),
        ("# Title\nText\n- one\n- two\n  more\n\n1. x", ["Title", "Text", "one", "two more", "x"]),
        ("Before:\n\n```sh\nmany words. here\n```\n\nafter", ["Before:", "after"]),
        ("- item:\n\n  ```toml\n  a = 1\n  ```\n", ["item:"]),
        ("| a | b |\n|---|---|\n| c. d | e |\n\nText", ["Text"]),
    ],
)
def test_sentences_end_with_a_stop_a_paragraph_or_an_item(text: str, expected: list[str]) -> None:
    assert list(sentences(text)) == expected
