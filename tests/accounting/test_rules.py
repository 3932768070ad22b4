"""The second accounting gives the figures that ``providers.md`` itself gives, rule by rule."""

import pytest

from tests.accounting.accounts import AccountedCall, account
from tests.accounting.rules import RULES
from tests.accounting.wire import WireBlock, WirePrompt

_NEVER = 1e12


def _block(
    name: str, size: int, role: str = "user", *, ttl: str = "", message: int = 0
) -> WireBlock:
    """A block of so many tokens, alike where its name is."""
    token = sum(ord(letter) * 131**index for index, letter in enumerate(name)) % 2**24
    return WireBlock(role, "text", message, (token,) * size, ttl)


def _prompt(*blocks: WireBlock, key: str = "", explicit: bool = False) -> WirePrompt:
    numbered = (block._replace(message=index) for index, block in enumerate(blocks))
    return WirePrompt(tuple(numbered), (), "", key=key, explicit=explicit)


def _bills(rules: str, *prompts: WirePrompt, gap: float = 10.0) -> list[tuple[int, dict[str, int]]]:
    """Tokens read and written of calls so many seconds apart, each answered at once."""
    calls = [
        AccountedCall(prompt, index * gap, index * gap + 0.1, index * gap + 0.2, (7, 7))
        for index, prompt in enumerate(prompts)
    ]
    bills = [bill for bill in account(calls, RULES[rules]) if bill is not None]
    return [(bill.read, dict(bill.written)) for bill in bills]


def test_gpt_5_6_charges_each_token_once() -> None:  # §1.2, exclusivity
    first, more = _block("a", 12_000), _block("b", 3_000)
    bills = _bills("openai-breakpoint", _prompt(first), _prompt(first, more))
    assert bills == [(0, {"30m": 12_000}), (12_000, {"30m": 3_000})]


def test_gpt_5_6_never_reads_stable_start_without_mark() -> None:  # §1.2, gotcha 1
    calls = [_prompt(_block("a", 6_000, "developer"), _block(f"q{n}", 100)) for n in range(4)]
    assert _bills("openai-breakpoint", *calls) == [(0, {"30m": 6_100})] * 4


def test_gpt_5_6_reads_exactly_what_mark_ended() -> None:  # §1.2, gotcha 1, measured
    start = _block("a", 6_001, "developer", ttl="30m")
    calls = [_prompt(start, _block(f"q{n}", 1_520), explicit=True) for n in range(2)]
    assert _bills("openai-breakpoint", *calls) == [(0, {"30m": 6_001}), (6_001, {})]


def test_gpt_5_6_misses_message_that_was_extended() -> None:  # §1.2, gotcha 2
    calls = (_prompt(_block("a", 2_000)), _prompt(_block("a", 3_000)))
    assert _bills("openai-breakpoint", *calls)[1] == (0, {"30m": 3_000})


def test_gpt_5_6_explicit_mode_misses_implicit_entry_once() -> None:  # §1.2, gotcha 3
    plain, marked = _block("a", 2_000), _block("a", 2_000, ttl="30m")
    calls = (_prompt(plain), _prompt(marked, explicit=True), _prompt(marked, explicit=True))
    assert [read for read, _ in _bills("openai-breakpoint", *calls)] == [0, 0, 2_000]


def test_gpt_5_6_explicit_mode_without_mark_writes_nothing() -> None:  # §1.2, gotcha 5
    assert _bills("openai-breakpoint", _prompt(_block("a", 9_000), explicit=True)) == [(0, {})]


def test_gpt_5_6_other_key_misses() -> None:  # §1.2, prompt_cache_key
    calls = [_prompt(_block("a", 2_000), key=key) for key in ("x", "y", "x")]
    assert [read for read, _ in _bills("openai-breakpoint", *calls)] == [0, 0, 2_000]


@pytest.mark.parametrize(("stored", "read"), [(16, 1_600), (15, 0)])
def test_claude_looks_at_twenty_blocks_from_mark(stored: int, read: int) -> None:  # §2.1, lookup
    blocks = [_block(f"b{index}", 100) for index in range(1, 36)]
    earlier = [*blocks[: stored - 1], blocks[stored - 1]._replace(ttl="5m")]
    later = [*blocks[:34], blocks[34]._replace(ttl="5m")]
    bills = _bills("anthropic", _prompt(*earlier), _prompt(*later))
    assert bills[1] == (read, {"5m": 3_500 - read})


def test_claude_bills_hour_before_five_minutes() -> None:  # §2.1, mixed TTL
    a = _block("a", 1_000, ttl="1h")
    b, c = _block("b", 700, ttl="1h"), _block("c", 300, ttl="5m")
    bills = _bills("anthropic", _prompt(a), _prompt(a, b, c))
    assert bills[1] == (1_000, {"1h": 700, "5m": 300})


@pytest.mark.parametrize(("gap", "read"), [(300.0, 1_000), (301.0, 0)])
def test_claude_entry_lives_five_minutes_from_last_use(gap: float, read: int) -> None:  # §2.1
    calls = [_prompt(_block("a", 1_000, ttl="5m"))] * 3
    assert [one for one, _ in _bills("anthropic", *calls, gap=gap)] == [0, read, read]


def test_claude_entry_is_read_only_once_its_answer_began() -> None:  # §2.1, visibility
    prompt = _prompt(_block("a", 1_000, ttl="5m"))
    calls = [AccountedCall(prompt, seconds, 3.0, 4.0) for seconds in (0.0, 2.9, 3.1)]
    bills = [bill for bill in account(calls, RULES["anthropic"]) if bill is not None]
    assert [bill.read for bill in bills] == [0, 0, 1_000]


@pytest.mark.parametrize(("size", "written"), [(512, {"5m": 512}), (511, {})])
def test_claude_stores_no_prefix_below_minimum(size: int, written: dict[str, int]) -> None:  # §2.2
    assert _bills("anthropic", _prompt(_block("a", size, ttl="5m"))) == [(0, written)]


def test_claude_refuses_fifth_mark() -> None:  # §2.1, max
    prompt = _prompt(*(_block(f"b{index}", 600, ttl="5m") for index in range(5)))
    assert list(account([AccountedCall(prompt, 0.0, _NEVER, _NEVER)], RULES["anthropic"])) == [None]


@pytest.mark.parametrize(("size", "read"), [(2_047, 0), (2_048, 2_048), (5_000, 4_096)])
def test_gpt_5_5_reads_whole_intervals(size: int, read: int) -> None:  # §1.3
    start = _block("a", size)
    calls = [_prompt(start, _block(f"q{index}", 500)) for index in range(2)]
    assert _bills("openai-interval", *calls)[1] == (read, {})


def test_gpt_5_5_sixteenth_call_in_minute_meets_cold_machine() -> None:  # §1.4
    calls = [_prompt(_block("a", 3_000))] * 17
    reads = [read for read, _ in _bills("openai-interval", *calls, gap=1.0)]
    assert [index for index, read in enumerate(reads) if not read] == [0, 15]


def test_deepseek_reads_shared_start_from_third_call_on() -> None:  # §5
    calls = [_prompt(_block("a", 640), _block(f"q{index}", 64)) for index in range(4)]
    assert [read for read, _ in _bills("deepseek", *calls)] == [0, 0, 640, 640]


def test_mistral_reads_nothing_without_key() -> None:  # §6
    for key, read in (("", 0), ("k", 960)):
        assert _bills("mistral", *[_prompt(_block("a", 1_000), key=key)] * 2)[1][0] == read


def test_vllm_computes_last_token_of_aligned_repeat() -> None:  # §7.1
    assert _bills("vllm", *[_prompt(_block("a", 160))] * 2)[1][0] == 144


@pytest.mark.parametrize(
    ("rules", "retention", "gap", "is_read"),
    [
        ("openai-interval-24h", "", 1_799.0, True),
        ("openai-interval-24h", "", 1_801.0, False),
        ("openai-interval-24h", "in_memory", 301.0, False),
        ("openai-interval", "", 301.0, False),
        ("openai-interval", "24h", 1_799.0, True),
    ],
)
def test_gpt_5_5_keeps_unused_prompt_for_its_retention(  # §1.3, retention
    rules: str, retention: str, gap: float, *, is_read: bool
) -> None:
    calls = [_prompt(_block("a", 3_000))._replace(retention=retention)] * 2
    assert bool(_bills(rules, *calls, gap=gap)[1][0]) == is_read


def test_used_prompt_is_dropped_after_an_hour_in_memory_and_after_a_day_else() -> None:  # §1.3
    for rules, gap, longest in (
        ("openai-interval", 290.0, 3_600),
        ("openai-interval-24h", 1_700.0, 86_400),
    ):
        calls = [_prompt(_block("a", 3_000))] * (int(longest / gap) + 2)
        reads = [read for read, _ in _bills(rules, *calls, gap=gap)]
        assert [index for index, read in enumerate(reads) if not read] == [0, len(calls) - 1]
