"""At any size a value stands beside its own record and field, and an action with its outcome.

What a segment says is read back here as a reader would: tables by their columns, objects by their
members, calls by their arguments. Each claim read must be one that a result, or a call, made.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.facts.segment_fitting import segment_within
from compaction.facts.speech import GAP
from compaction.reading.token_estimate import estimate_tokens
from tests.compaction.facts.regions import Said, assistant, call_and_result, region, user
from tests.examples import examples

#: A record's key, a field, and what stands in it.
Claim = tuple[str, str, str]
FIELDS = ("fee", "paid", "code", "owner", "open", "due")
TABLE = re.compile(
    r"(?:every_row:\{(?P<same>[^{}]*)\} )?columns(?: (?P<letter>[A-Z]))?(?::\[(?P<names>[^\]]*)\])?"
    r"(?: absent:~)? rows:\[\[(?P<rows>.*?)\]\]"
)
OBJECT = re.compile(r"\{([^{}\[\]]*)\}")
CALL = re.compile(r"\b(get_order|list_orders|update_order|transfer)\(([^()]*)\)")
VALUE = re.compile(r"\b(?:[123]\d{4}|X\d{3}B|own_\d{3}|2026-\d\d-\d\d)\b")
ENDS = {
    "Error: insufficient funds": "error: insufficient funds",
    '{"receipt": "done"}': "ok",
    "": "unknown",
}


def record(number: int, fields: frozenset[str], version: int = 1) -> dict[str, Any]:
    """A record; some of what stands in it stands in others too, as in life."""
    every = {
        "fee": 10_000 * version + number,
        "paid": 20_050,
        "code": f"X{number:03}B",
        "owner": f"own_{number % 3:03}",
        "open": number % 2 == 0,
        "due": f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}",
    }
    return {"id": f"R{number:03}", **{name: every[name] for name in FIELDS if name in fields}}


records = st.builds(
    record,
    st.integers(0, 40),
    st.frozensets(st.sampled_from(FIELDS), min_size=2),
    st.sampled_from([1, 3]),
)
lists = st.lists(records, min_size=1, max_size=14, unique_by=lambda drawn: drawn["id"])
turns = st.one_of(
    st.tuples(st.just("list_orders"), lists),
    st.tuples(st.just("get_order"), records),
    st.tuples(st.just("update_order"), records),
    st.tuples(st.just("transfer"), st.sampled_from(sorted(ENDS))),
    st.tuples(st.just("tells"), records),
)


def turn_of(number: int, kind: str, result: Any) -> Iterator[Said]:
    """A turn of a conversation."""
    ref = f"c{number}"
    if kind == "transfer":
        yield call_and_result(kind, result, ref, amount=500, to=f"DE{number:02}")
    elif kind == "tells":
        yield assistant(
            f"Order {result['id']} has the fee {result.get('fee', 'none')}. Is that all?"
        )
    elif kind == "list_orders":
        yield call_and_result(kind, json.dumps(result), ref, page=number)
    else:
        yield call_and_result(kind, json.dumps(result), ref, order=result["id"])
    yield user("Go on, please." if number % 2 else f"And what of R{number:03}?")


def claims(result: Any) -> set[Claim]:
    """The values of a result."""
    them = result if isinstance(result, list) else [result]
    return {
        (order["id"], name, json.dumps(value).strip('"'))
        for order in them
        for name, value in order.items()
    }


def pairs(text: str) -> dict[str, str]:
    return dict(pair.split(":", 1) for pair in text.split())


def read_back(line: str, letters: dict[str, list[str]]) -> tuple[list[Claim], str]:
    """The claims of a line about records, and the rest of it."""
    read_claims: list[Claim] = []

    def table(match: re.Match[str]) -> str:
        names = match["names"].split() if match["names"] is not None else letters[match["letter"]]
        if match["letter"]:
            letters[match["letter"]] = names
        same = pairs(match["same"] or "")
        for row in match["rows"].split("; "):
            cells = [cell.strip('"') for cell in row.split()]
            members = same | dict(zip_longest(names, cells, fillvalue="(no column)"))
            read_claims.extend(
                (members["id"], name, cell) for name, cell in members.items() if cell != "~"
            )
        return ""

    def one(match: re.Match[str]) -> str:
        members = {name: value.strip('"') for name, value in pairs(match[1]).items()}
        if "id" in members:
            read_claims.extend((members["id"], name, value) for name, value in members.items())
            return ""
        return match[0]

    rest = OBJECT.sub(one, TABLE.sub(table, line))
    return read_claims, CALL.sub("", rest)


def check_claims(text: str, kinds: list[tuple[str, Any]]) -> None:
    """Fails where a line claims what nothing said, or holds values that it claims of nothing."""
    true = {
        claim
        for kind, result in kinds
        if kind.endswith(("order", "orders"))
        for claim in claims(result)
    }
    sentences = {"Is that all?"} | {
        f"Order {result['id']} has the fee {result.get('fee', 'none')}."
        for kind, result in kinds
        if kind == "tells"
    }
    letters: dict[str, list[str]] = {}
    for line in text.split("\n")[1:]:
        label, _, words = line.partition(": ")
        if label.endswith(("assistant", "values")):
            assert set(re.split(r"(?<=[.?])\s", words.removeprefix(GAP))) <= sentences, line
        elif label.endswith(("tool", "did", "tried", "gone")):
            claimed, rest = read_back(words, letters)
            assert set(claimed) <= true, (line, set(claimed) - true)
            assert not VALUE.search(rest), line
    ended_as_told(text, kinds)


def ended_as_told(text: str, kinds: list[tuple[str, Any]]) -> None:
    """Fails where an action stands without its outcome, or more often than it ended so."""
    did = re.findall(r"^(?:did|tried): (.*)", text, re.MULTILINE)
    assert {line.rpartition(" → ")[2] for line in did} <= set(ENDS.values()), text
    moved = Counter(line.rpartition(" → ")[2] for line in did if line.startswith("transfer("))
    assert moved <= Counter(ENDS[ending] for kind, ending in kinds if kind == "transfer"), text


def region_of(kinds: list[tuple[str, Any]]) -> Any:
    turned = [
        message
        for number, (kind, result) in enumerate(kinds)
        for message in turn_of(number, kind, result)
    ]
    return region(user("Look after my orders."), *turned)


@pytest.mark.slow
@examples(75, deadline=None)
@given(st.lists(turns, min_size=1, max_size=14))
def test_without_a_target_values_stay_beside_their_record_and_actions_beside_their_outcome(kinds):
    check_claims(segment_within(region_of(kinds), 0, estimate_tokens).text, kinds)


@pytest.mark.slow
@examples(75, deadline=None)
@given(st.lists(turns, min_size=1, max_size=14), st.integers(1, 1_500))
def test_at_any_size_values_stay_beside_their_record_and_actions_beside_their_outcome(
    kinds, max_tokens
):
    segment = segment_within(region_of(kinds), max_tokens, estimate_tokens)

    check_claims(segment.text, kinds)


def calls_in(text: str) -> int:
    return sum(1 for line in text.split("\n") if re.search(r"\b(?:tool|did|tried): ", line))


@pytest.mark.slow
@examples(50, deadline=None)
@given(st.lists(turns, min_size=1, max_size=14), st.integers(1, 1_500))
def test_an_omitted_record_is_named_as_gone(kinds, max_tokens):
    segment = segment_within(region_of(kinds), max_tokens, estimate_tokens)
    whole = segment_within(region_of(kinds), 0, estimate_tokens)
    gone = sum(map(int, re.findall(r"\((\d+) times\)", segment.text.rpartition("not shown: ")[2])))

    if calls_in(segment.text) < calls_in(whole.text):
        assert "calls made, not shown: " in segment.text
        assert gone <= calls_in(whole.text) - calls_in(segment.text)
