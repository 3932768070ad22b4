"""The do-no-harm table: its routes, its cells, and how it is printed."""

from pathlib import Path

import msgspec
import pytest

from proxy.caches.regimes import REGIMES
from proxy.records.feature_mode import PlanningMode
from slo.price import TokenRates
from tests.bench.no_harm_live import beside
from tests.bench.no_harm_replay import (
    LIMIT,
    MANY_CALLS,
    Replayer,
    Side,
    WorkloadCell,
    dearest_window,
    may_lose,
    pace,
)
from tests.bench.no_harm_routes import FEW, LIVE, MODELS, catalog
from tests.bench.no_harm_sets import folder, sets, shapes
from tests.bench.no_harm_table import (
    dear,
)
from tests.fakes.agent_workloads import Agent, keyed_agents, sessions
from tests.fakes.virtual_clock import run_in_virtual_time
from tests.fakes.workloads import ONE_BY_ONE, Json, Session, SessionTurn, Workload, timed_calls
from tests.proxy.prefix.planning_requests import TARGETS

SMALL = Workload(name="small", sessions=sessions(Agent(system=14, tools=2), 12))


def _cell(ratio: float, **fields: object) -> WorkloadCell:
    sides = [Side(dollars=value, prompt=100, read=50, written=0) for value in (1.0, ratio)]
    values = {"how": "replay", "workload": "w", "model": "m", "rate": 6.0, **fields}
    return WorkloadCell(**values, direct=sides[0], gateway=sides[1])  # type: ignore[arg-type]


def test_the_models_of_the_table_have_every_regime_and_a_price(tmp_path: Path):
    models, _ = catalog(tmp_path)
    routes = [models.models[name].routes[0] for name in MODELS]

    assert {route.regime for route in routes} == REGIMES
    assert all(route.tariff is not None for route in routes)
    assert {*FEW, *LIVE} <= {*MODELS}


def test_a_cell_above_its_stake_or_above_the_limit_after_many_calls_or_that_failed_is_dear():
    cells = [
        _cell(LIMIT, calls=MANY_CALLS), _cell(LIMIT + 1e-4, calls=MANY_CALLS),
        _cell(1.2, calls=40), _cell(1.0099, calls=MANY_CALLS - 1), _cell(1.02, may_lose=0.03),
        WorkloadCell(how="live", workload="w", model="m", rate=6.0, why="it failed"),
    ]  # fmt: skip

    assert [cell.ratio and round(cell.ratio, 4) for cell in dear(cells)] == [1.2, 1.0006, None]


def test_a_cell_is_dear_by_a_thousand_calls_in_a_row_whatever_it_saved_before():
    saved, lost = [(0.001, 0.0005)] * 1_500, [(0.001, 0.00102)] * 1_000
    window = dearest_window([*saved, *lost, *saved])

    assert window == pytest.approx(0.0195)
    assert dearest_window(lost[1:]) is None
    assert dear([_cell(0.6, calls=4_000, window_extra=window)])
    assert not dear([_cell(0.6, calls=4_000, window_extra=window, may_lose=0.02)])


def test_a_cell_may_lose_a_stake_for_each_feature_or_the_surcharge_of_its_longest_prompt():
    prompts = [("short", 100), ("long", 9_000), ("long", 20_000), ("long", 400)]
    anthropic = msgspec.structs.replace(
        TARGETS["anthropic-breakpoint"], rates=TokenRates(input=3_000_000_000)
    )

    assert may_lose(prompts, anthropic) == pytest.approx(0.01 + 20_000 * 0.25 * 3 / 1e6)
    assert may_lose(prompts, anthropic, stake=0.1) == pytest.approx(0.2)
    assert may_lose(prompts, TARGETS["implicit"]) == pytest.approx(0.02)


def test_replay_of_a_cell_is_the_same_each_time(tmp_path: Path):
    models, _ = catalog(tmp_path)
    laid_out = {30.0: timed_calls(SMALL, 30, 20)}
    first, second = (
        Replayer().cells(SMALL, laid_out, models.models["gpt-6.1-sol"]) for _ in range(2)
    )

    assert first == second
    assert first[0].calls == 20
    assert first[0].pace == pytest.approx(pace(laid_out[30.0]))


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("developer tails now and then, small system", "claude-sonnet-5-5"),
        ("image tail", "claude-haiku-4-5"),
        ("tools per session", "claude-haiku-4-5"),
    ],
    ids=["rules just under the least", "images weigh more", "what was only on paper is written"],
)
def test_where_estimates_mislead_no_more_than_the_stake_is_lost(
    tmp_path: Path, name: str, model: str
):
    models, _ = catalog(tmp_path)
    (held,) = (shape for shape in shapes() if shape.name == name)
    (cell,) = Replayer().cells(held, {120.0: timed_calls(held, 120, 120)}, models.models[model])

    assert cell.extra_dollars is not None
    assert cell.extra_dollars <= cell.may_lose
    assert cell.ratio is not None
    assert cell.ratio < 1.01  # up to 1.125 where stakes were reckoned by estimates alone


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("overlapping", 0.8),
        ("in bursts", LIMIT),  # 1.45 where a session leaves its key at its fourth call
        ("short", 0.4),
        ("short, in bursts", 0.8),
    ],
)
def test_sessions_with_cache_keys_of_their_own_are_never_dearer_at_any_rate(
    tmp_path: Path, name: str, most: float
):
    models, _ = catalog(tmp_path)
    (held,) = (agent for agent in keyed_agents(24) if agent.name == f"Codex's keys, {name}")
    laid_out = {rate: timed_calls(held, rate, 48) for rate in (6.0, 30.0, 120.0)}
    cells = Replayer().cells(held, laid_out, models.models["gpt-5.6-terra"])

    assert all(cell.ratio is not None and cell.ratio <= LIMIT for cell in cells)
    assert (cells[0].ratio or 1.0) <= most  # at six calls a minute most share a key


def test_live_cells_send_the_same_calls_both_ways_and_come_out_the_same_each_time(tmp_path: Path):
    calls = timed_calls(SMALL, 30, 12)

    def run_cells(place: Path) -> list[WorkloadCell]:
        async def story() -> list[WorkloadCell]:
            async with beside(place, control_share=0.0) as both:
                return await both.cells(SMALL, calls, ["gpt-6.1-sol", "mistral-large-4"], 30)

        place.mkdir()
        return run_in_virtual_time(story)

    first, second = run_cells(tmp_path / "1"), run_cells(tmp_path / "2")

    assert first == second
    for cell in first:
        assert cell.left_out == 0
        assert cell.direct is not None
        assert cell.gateway is not None
        assert cell.direct.prompt == cell.gateway.prompt > 0
        assert abs(cell.claim_error or 0.0) < 0.05


def test_live_layouts_that_approve_themselves_begin_at_the_same_call_each_time(tmp_path: Path):
    (held,) = (shape for shape in shapes() if shape.name == "time first in system")

    def run_cells(place: Path) -> list[WorkloadCell]:
        async def story() -> list[WorkloadCell]:
            async with beside(place, planning=PlanningMode.AUTO) as both:
                return await both.cells(held, timed_calls(held, 6, 24), ["deepseek-flash"], 6)

        place.mkdir()
        return run_in_virtual_time(story)

    (first,), (second,) = run_cells(tmp_path / "1"), run_cells(tmp_path / "2")

    assert first == second
    assert first.layouts == {"agent": 1}
    assert first.ratio is not None
    assert first.ratio < 0.9


def test_a_gateway_of_two_processes_that_restarts_answers_all_calls_and_keeps_its_ledger(
    tmp_path: Path,
):
    (held,) = (shape for shape in shapes() if shape.name == "agent, overlapping")
    model = "claude-sonnet-5-5"

    async def story() -> list[WorkloadCell]:
        async with beside(tmp_path, processes=2, is_restarted=True, approves=True) as both:
            return await both.cells(held, timed_calls(held, 30, 24), [model], 30)

    (cell,) = run_in_virtual_time(story)

    assert (cell.left_out, cell.why) == (0, "")
    assert cell.ratio is not None
    assert cell.ratio < 0.9
    assert cell.claimed


@pytest.mark.skipif(folder() is None, reason="the recorded sets are not here")
def test_every_recorded_set_is_where_the_table_looks_for_it():
    data = folder()
    assert data is not None

    assert [name for name, found in sets(data) if not found] == []


@pytest.mark.parametrize("name", ["own marks: last", "long rules, overlapping"])
def test_calls_of_anthropics_api_are_never_dearer_and_mostly_cheaper(tmp_path: Path, name: str):
    (held,) = (shape for shape in shapes() if shape.name == name)
    models = ["claude-sonnet-5-5", "claude-haiku-4-5"]

    async def story() -> list[WorkloadCell]:
        async with beside(tmp_path) as both:
            return await both.cells(held, timed_calls(held, 30, 40), models, 30, is_native=True)

    cells = run_in_virtual_time(story)

    assert [(cell.left_out, cell.why) for cell in cells] == [(0, "")] * len(models)
    assert all(cell.ratio is not None and cell.ratio <= LIMIT for cell in cells)
    assert min(cell.ratio or 1.0 for cell in cells) < 0.8


def _memory(number: int) -> str:
    return f"\nYour memory is at `/home/user{number}/project/memory/`.\n"


def _coding_sessions(count: int, turns: int) -> list[Session]:
    """Sessions of a coding agent as Claude Code sends them, each in a folder of its own."""
    mark = {"cache_control": {"type": "ephemeral"}}
    rules = "You never guess, and you cite the file and the line of all you say. " * 60
    made = []
    for number in range(count):
        system = [
            {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.{number:03x};"},
            {"type": "text", "text": "You are a Claude agent, built on the Agent SDK.", **mark},
            {
                "type": "text",
                "text": rules + _memory(number) + rules,
                **mark,
            },
        ]
        messages: list[Json] = [{"role": "system", "content": system}]
        bodies = []
        for turn in range(turns):
            words = f"Session {number}, step {turn}: look at file {number * turn}. " * 12
            block = {"type": "text", "text": words}
            bodies.append([*messages, {"role": "user", "content": [{**block, **mark}]}])
            answer = {"role": "assistant", "content": f"File {number * turn} is fine."}
            messages = [*messages, {"role": "user", "content": [block]}, answer]
        tools = [
            {
                "type": "function",
                "function": {
                    "name": f"tool_{each}",
                    "description": "Does what its name says, in every folder alike. " * 20,
                    "parameters": {"type": "object", "properties": {}},
                },
            }
            for each in range(12)
        ]
        each = tuple(SessionTurn(body={"messages": body, "tools": tools}) for body in bodies)
        made.append(Session(name=f"s{number}", turns=each))
    return made


@pytest.mark.parametrize(("count", "most"), [(1, LIMIT), (12, 0.8)], ids=["one alone", "twelve"])
def test_sessions_of_a_coding_agent_share_what_they_have_in_common_and_are_never_dearer(
    tmp_path: Path, count: int, most: float
):
    held = Workload(name="coding", sessions=_coding_sessions(count, 3), pace=ONE_BY_ONE)
    model = "claude-sonnet-5-5"

    async def story() -> list[WorkloadCell]:
        async with beside(tmp_path, control_share=0.0) as both:
            return await both.cells(
                held, timed_calls(held, 30, count * 3), [model], 30, is_native=True
            )

    (cell,) = run_in_virtual_time(story)

    assert (cell.left_out, cell.why) == (0, "")
    assert cell.ratio is not None
    assert cell.ratio <= most
