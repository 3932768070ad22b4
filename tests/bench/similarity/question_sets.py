"""Questions of public sets, each with the intent that stands for its answer; none is kept here.

CLINC150 (Larson et al., 2019; CC BY 3.0) has questions out of its scope, each of which wants an
answer of its own. Banking77 (Casanueva et al., 2020; CC BY 4.0) has 77 intents of one bank.
"""

import csv
from pathlib import Path
from typing import NamedTuple

import orjson


class AskedQuestion(NamedTuple):
    """A question with the name that all questions with the same answer share."""

    text: str
    answer: str


def clinc150(folder: Path) -> list[AskedQuestion]:
    """All parts of ``data_full.json``; the questions out of scope share no answer."""
    parts = orjson.loads((folder / "data_full.json").read_bytes())
    rows = [row for name in sorted(parts) for row in parts[name]]
    return [
        AskedQuestion(text, f"oos {place}" if intent == "oos" else intent)
        for place, (text, intent) in enumerate(rows)
    ]


def banking77(folder: Path) -> list[AskedQuestion]:
    """Both parts, ``train.csv`` and ``test.csv``."""
    questions: list[AskedQuestion] = []
    for name in ("train.csv", "test.csv"):
        with (folder / name).open(encoding="utf8", newline="") as rows:
            questions += [
                AskedQuestion(row["text"], row["category"]) for row in csv.DictReader(rows)
            ]
    return questions


def paraphrases(folder: Path) -> list[tuple[str, str]]:
    """Pairs of a sentence and its paraphrase, of GPTCache's ``mock_data.json``."""
    rows = orjson.loads((folder / "mock_data.json").read_bytes())
    return [(row["origin"], row["similar"]) for row in rows]
