import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.prompts.fingerprints import (
    SHORT_DIGEST_BYTES,
    Pseudonymizer,
    bare_json,
    digest_without_marks,
    join_fingerprints,
    keyed_hash,
    name_digest,
    shared_length,
    split_fingerprints,
    team_fingerprint,
    without_marks,
)
from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.prompt import BlockJson, Prompt, parse_prompt
from tests.cache_bounds import remembers_latest
from tests.proxy.prefix.sent_calls import blocks, body, fingerprint

SECRET = b"s" * 32
PSEUDONYMS = Pseudonymizer(SECRET)
MARK = {"cache_control": {"type": "ephemeral"}}
BREAK = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def test_the_digest_of_a_name_is_its_keyed_hash():
    one, other = keyed_hash(SECRET, "one"), keyed_hash(SECRET, "other")

    assert name_digest(one, "m") == name_digest(one, "m") == one(b"m")
    assert name_digest(other, "m") == other(b"m") != one(b"m")


@given(st.binary(max_size=9_000), st.binary(max_size=9_000))
def test_keyed_hashes_are_equal_for_equal_texts_only(one, other):
    digest = keyed_hash(SECRET, "team")

    assert (digest(one) == digest(other)) == (one == other)
    assert len(digest(one)) == 16


@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 100_000])
def test_keyed_hashes_differ_by_team_and_installation(length):
    text = b"x" * length
    fingerprints = {
        keyed_hash(SECRET, "team")(text),
        keyed_hash(SECRET, "other")(text),
        keyed_hash(b"t" * 32, "team")(text),
    }

    assert len(fingerprints) == 3


def test_a_keyed_hash_is_the_same_in_every_process():
    digest = keyed_hash(SECRET, "team")

    assert digest(b"Hello").hex() == "4fd4f2dad2d328a4a821cd22a02de540"
    assert digest(b"Hello" * 1000).hex() == "b1a963553e542715d39eaac60aa90dc9"
    assert digest(b"a" * 4_095).hex() == "39ef72ba24d22812ebb409997e2384c9"
    assert digest(b"a" * 4_096).hex() == "a3875cf9e4ac8a9c591d986e8fefaa96"


def test_hashes_of_4096_teams_and_of_16384_names_are_remembered():
    assert remembers_latest(lambda number: team_fingerprint(SECRET, str(number)), 4_096)
    digest = keyed_hash(SECRET, "team")
    assert remembers_latest(lambda number: name_digest(digest, str(number)), 16_384)


def chat(system: object, user: object, tool: dict[str, object]) -> Prompt:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return parse_prompt(msgspec.json.encode({"messages": messages, "tools": [tool]}))


def digests(prompt: Prompt) -> list[bytes]:
    prompt_blocks, pieces = blocks(prompt, fingerprint), BlockJson(prompt)
    digests = [
        digest_without_marks(pieces.block_json(block), fingerprint) for block in prompt_blocks
    ]
    return [block.digest for block in without_marks(prompt_blocks, digests)]


TOOL: dict[str, object] = {"type": "function", "function": {"name": "a"}}


def test_marks_do_not_change_the_digest_without_marks():
    plain = chat("rules", "hello", TOOL)
    system = [{"type": "text", "text": "rules", **MARK}]
    user = [{"type": "text", "text": "hello", **BREAK}]

    assert digests(chat(system, user, {**TOOL, **MARK})) == digests(plain)
    assert digests(chat("rules", "hello you", TOOL)) != digests(plain)


def test_parts_are_not_run_together_in_the_digest_without_marks():
    two = [{"type": "text", "text": "a"}, {"type": "text", "text": "b", **MARK}]

    assert bare_json(msgspec.json.encode({"content": two})) == (
        b'{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}'
    )


def test_spacing_does_not_change_the_digest_without_marks():
    assert bare_json(b'{"a": 1, "b": [2]}') == bare_json(b'{"a":1,"b":[2]}')


def test_a_mark_that_is_the_callers_argument_is_kept():
    argument = b'{"role":"assistant","tool_calls":[{"cache_control":1}]}'

    assert bare_json(argument) == argument


@pytest.mark.parametrize("raw", [b"{", b'"\xff"', b"[" * 100_000])
def test_a_block_that_is_no_json_is_unplannable(raw):
    with pytest.raises(Unplannable):
        bare_json(raw)


@pytest.mark.parametrize("raw", [b"1", b"null", b"[]", b'{"content": [1]}', b'{"content": []}'])
def test_odd_blocks_stay_in_the_json_without_marks(raw):
    assert msgspec.json.decode(bare_json(raw)) in (msgspec.json.decode(raw), {"content": 1})


def test_block_json_finds_the_json_of_each_block():
    prompt, prompt_blocks = body(("system", "a"), ("user", "b"), tools=("t",))
    pieces = BlockJson(prompt)

    assert [pieces.block_json(block) for block in prompt_blocks] == [
        prompt.tools[0],
        b'"a"',
        prompt.messages[1],
    ]


@given(st.binary(min_size=1), st.binary(min_size=1))
def test_pseudonyms_are_equal_for_equal_texts_of_a_team_alone(one, other):
    assert (PSEUDONYMS.pseudonym("t", one) == PSEUDONYMS.pseudonym("t", other)) == (one == other)
    assert PSEUDONYMS.pseudonym("t", one) != PSEUDONYMS.pseudonym("u", one)
    assert PSEUDONYMS.pseudonym("t", one) != Pseudonymizer(b"other").pseudonym("t", one)
    assert len(PSEUDONYMS.pseudonym("t", one)) == 32


def test_no_text_has_no_pseudonym():
    assert PSEUDONYMS.pseudonym("t", b"") == ""


@given(st.lists(st.integers(0, 2), max_size=9), st.lists(st.integers(0, 2), max_size=9))
def test_shared_length_is_that_of_the_common_start(one, other):
    rows = [b"".join(bytes([value]) * SHORT_DIGEST_BYTES for value in row) for row in (one, other)]
    same = next(
        (index for index, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )

    assert shared_length(*rows) == same * SHORT_DIGEST_BYTES


@given(st.lists(st.binary(min_size=8, max_size=16), max_size=9))
def test_joined_fingerprints_are_split_into_their_beginnings(digests):
    joined = join_fingerprints(digests)

    assert split_fingerprints(joined) == [digest[:SHORT_DIGEST_BYTES] for digest in digests]
