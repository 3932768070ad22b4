"""The replica that each call goes to, as the gateway learns from calls, pages and supervisors."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
import pytest

from proxy.calls.ports import ReplicaOrder
from proxy.calls.route_choice import RouteChoice
from proxy.catalog.entries import Route, Upstream
from proxy.engines.state.replica_report import ProcessState
from proxy.engines.warming.accounts import WarmingKind
from proxy.records.call import Call
from proxy.services.engines.replica_monitor import ReplicaMonitor
from proxy.services.engines.replica_routing import ReplicaRouting
from slo.usage import Usage
from tests.fakes.call_dependencies import call
from tests.fakes.engine_pages import PlayedPages, report
from tests.fakes.engine_profiles import a_profile
from tests.fakes.virtual_clock import run_in_virtual_time

T = TypeVar("T")
ATTACHED = 'replicas = ["http://a:1/v1", "http://b:2/v1", "http://c:3/v1"]\nserved_name = "m"'
LONG = "Everything that was agreed on so far. " * 400


def chat(conversation: int, turns: int = 1, **fields: Any) -> Call:
    """The call of a conversation after so many turns."""
    messages = [{"role": "system", "content": f"Case {conversation}. {LONG}"}]
    for turn in range(turns):
        messages.append({"role": "user", "content": f"Question {turn}. {LONG}"})
        messages.append({"role": "assistant", "content": f"Answer {turn}"})
    return call(json.dumps({"model": "m", "messages": messages[:-1]}).encode(), **fields)


class RoutingGateway:
    """The routing of one gateway over replicas that a test plays."""

    def __init__(self, pages: PlayedPages, table: str = ATTACHED, region: str = "") -> None:
        self.pages = pages
        self.profile = a_profile(table)
        self.monitor: ReplicaMonitor = pages.monitor(self.profile)
        self.routing = ReplicaRouting(self.monitor, asyncio.get_running_loop().time, region)
        self.choices = tuple(
            RouteChoice(
                Route(
                    name=f"house:{n}/m",
                    upstream=Upstream(
                        name=f"house:{n}", kind="openai", base_url=url, engine="house"
                    ),
                    model="m",
                ),
                "m",
            )
            for n, url in enumerate(self._urls())
        )

    def _urls(self) -> list[str]:
        return [status.base_url for status in self.monitor.statuses()]

    async def order(self, of: Call) -> ReplicaOrder:
        return await self.routing.order(of, self.choices)

    async def serve(self, of: Call, *, cached: int = 0) -> str:
        """Serve a call at the best replica; its name."""
        ticket = (await self.order(of)).ready[0].replica
        assert ticket is not None
        ticket.send()
        ticket.begin_answer()
        tokens = len(of.body) // 4
        ticket.end(Usage(input=tokens - cached, cache_read=cached), is_comparable=True)
        return ticket.name


def play(story: Callable[[PlayedPages], Awaitable[T]]) -> T:
    async def whole() -> T:
        return await story(PlayedPages())

    return run_in_virtual_time(whole)


def names(choices: tuple[RouteChoice, ...]) -> list[str]:
    return [choice.route.upstream.name for choice in choices]


def test_a_conversation_stays_where_its_prefix_is_warm_and_the_ticket_says_so():
    async def story(pages: PlayedPages) -> tuple[set[str], str]:
        gateway = RoutingGateway(pages)
        served = {await gateway.serve(chat(1, turns)) for turns in (1, 2, 3)}
        ticket = (await gateway.order(chat(1, 4))).ready[0].replica
        assert ticket is not None
        return served, ticket.why

    served, why = play(story)

    assert len(served) == 1
    assert why.startswith("warm: ")


def test_a_call_counts_at_its_replica_from_its_start_to_its_end():
    async def story(pages: PlayedPages) -> list[int]:
        gateway = RoutingGateway(pages)
        ticket = (await gateway.order(chat(1))).ready[0].replica
        assert ticket is not None
        counts = []
        for step in (lambda: None, ticket.send, lambda: ticket.end(None, is_comparable=False)):
            step()
            statuses = gateway.monitor.statuses()
            counts.append(sum(gateway.routing.calls_in_flight(status) for status in statuses))
        return counts

    assert play(story) == [0, 1, 0]


def test_many_conversations_spread_over_all_replicas():
    async def story(pages: PlayedPages) -> set[str]:
        gateway = RoutingGateway(pages)
        return {await gateway.serve(chat(n)) for n in range(12)}

    assert play(story) == {"house:0", "house:1", "house:2"}


def test_two_gateways_send_a_new_conversation_to_the_same_replica():
    async def story(pages: PlayedPages) -> list[tuple[list[str], list[str]]]:
        one, other = RoutingGateway(pages), RoutingGateway(pages)
        result = []
        for n in range(8):
            request = chat(n)
            result.append(
                (
                    names((await one.order(request)).ready)[:1],
                    names((await other.order(request)).ready)[:1],
                )
            )
        return result

    assert all(one == other for one, other in play(story))


def test_replica_that_refuses_connections_comes_last_until_it_is_back():
    async def story(pages: PlayedPages) -> list[list[bool]]:
        gateway, seen = RoutingGateway(pages), []
        warm = await gateway.serve(chat(1))
        url = f"http://{'abc'[int(warm[-1])]}:{int(warm[-1]) + 1}/metrics"
        for answer in (
            ConnectionRefusedError(),
            pages.answers.get(url, b"vllm:num_requests_running 0\n"),
        ):
            pages.answers[url] = answer
            await gateway.monitor.read_all()
            order = await gateway.order(chat(1, 2))
            seen.append([warm in names(order.ready), warm in names(order.unready)])
        order = await gateway.order(chat(1, 2))
        seen.append([names(order.ready)[0] == warm])
        return seen

    assert play(story) == [[False, True], [True, False], [True]]


def test_a_replica_that_was_started_again_is_cold():
    async def story(pages: PlayedPages) -> list[str]:
        gateway = RoutingGateway(pages, "replicas = 2")
        pages.supervise(
            report("8000", ProcessState.READY, pid=1), report("8001", ProcessState.READY, pid=2)
        )
        await gateway.monitor.read_all()
        await gateway.serve(chat(1))
        before = (await gateway.order(chat(1, 2))).ready[0].replica
        pages.supervise(
            report("8000", ProcessState.READY, pid=3), report("8001", ProcessState.READY, pid=4)
        )
        await gateway.monitor.read_all()
        after = (await gateway.order(chat(1, 2))).ready[0].replica
        assert before is not None
        assert after is not None
        return [before.why[:4], after.why[:4]]

    assert play(story) == ["warm", "cold"]


def test_calls_follow_a_replica_to_the_port_of_a_rolling_change():
    async def story(pages: PlayedPages) -> str:
        gateway = RoutingGateway(pages, "")
        pages.supervise(report("8055", ProcessState.READY))
        await gateway.monitor.read_all()
        return (await gateway.order(chat(1))).ready[0].route.upstream.base_url

    assert play(story) == "http://127.0.0.1:8055/v1"


def test_a_replica_in_the_gateways_own_region_goes_first_for_a_new_conversation():
    async def story(pages: PlayedPages) -> set[str]:
        gateway = RoutingGateway(pages, region="eu")
        first, *others = gateway.choices
        nearby = replace(first.route, upstream=replace(first.route.upstream, region="eu"))
        gateway.choices = (*others, RouteChoice(nearby, "m"))
        return {names((await gateway.order(chat(n))).ready)[0] for n in range(6)}

    assert play(story) == {"house:0"}


def test_tokens_that_were_available_captured_and_delivered_are_counted():
    async def story(pages: PlayedPages) -> tuple[int, int, int, int]:
        gateway = RoutingGateway(pages)
        await gateway.serve(chat(1))
        again = chat(1)
        await gateway.serve(again, cached=len(again.body) // 8)
        reuse = gateway.routing.models["m"].router.reuse
        return reuse.prompt_tokens, reuse.available, reuse.captured, reuse.delivered

    prompt, available, captured, delivered = play(story)

    assert available == captured
    assert captured == pytest.approx(prompt / 2, rel=0.1)
    assert delivered == pytest.approx(prompt / 4, rel=0.1)


def test_a_call_without_a_prompt_goes_to_some_replica():
    async def story(pages: PlayedPages) -> int:
        return len((await RoutingGateway(pages).order(call(b'{"model":"m"}', "embeddings"))).ready)

    assert play(story) == 3


def test_a_large_prompt_is_matched_as_a_small_one_is():
    async def story(pages: PlayedPages) -> str:
        gateway = RoutingGateway(pages)
        assert len(chat(1, 40).body) > 256 * 1024
        await gateway.serve(chat(1, 40))
        ticket = (await gateway.order(chat(1, 41))).ready[0].replica
        assert ticket is not None
        return ticket.why

    assert play(story).startswith("warm: ")


@pytest.mark.parametrize("endpoint", ["chat/completions", "messages"])
def test_prompts_of_teams_that_are_kept_apart_are_not_taken_for_each_others(endpoint):
    def call_of(salt: str) -> Call:
        return msgspec.structs.replace(chat(1, salt=salt), endpoint=endpoint)

    async def story(pages: PlayedPages) -> list[str]:
        gateway = RoutingGateway(pages)
        choices = tuple(
            RouteChoice(_of_vllm(choice.route), choice.model) for choice in gateway.choices
        )
        gateway.choices = choices
        await gateway.serve(call_of("a" * 32))
        result = []
        for salt in ("a" * 32, "b" * 32):
            ticket = (await gateway.order(call_of(salt))).ready[0].replica
            assert ticket is not None
            result.append(ticket.why[:4])
        return result

    assert play(story) == ["warm", "cold"]


def _of_vllm(route: Route) -> Route:
    return replace(route, upstream=replace(route.upstream, provider="vllm"))


def test_unwatched_replicas_stay_in_the_catalogs_order():
    async def story(pages: PlayedPages) -> ReplicaOrder:
        gateway = RoutingGateway(pages)
        gateway.monitor.update({})
        return await gateway.order(chat(1))

    order = play(story)

    assert names(order.ready) == ["house:0", "house:1", "house:2"]
    assert order.unready == ()


def test_a_mistake_in_routing_leaves_the_catalogs_order(caplog):
    async def story(pages: PlayedPages) -> list[str]:
        gateway = RoutingGateway(pages)
        gateway.routing = ReplicaRouting(gateway.monitor, ticks=lambda: 1 // 0)
        return names((await gateway.order(chat(1))).ready)

    assert play(story) == ["house:0", "house:1", "house:2"]
    assert "Replicas stay in the catalog's order" in caplog.text


def test_routing_forgets_models_of_profiles_that_are_gone():
    async def story(pages: PlayedPages) -> int:
        gateway = RoutingGateway(pages)
        await gateway.serve(chat(1))
        gateway.routing.keep_only(["other"])
        return len(gateway.routing.models)

    assert play(story) == 0


def test_a_prompt_that_a_replica_was_warmed_with_is_believed_to_be_there():
    async def story(pages: PlayedPages) -> tuple[bool, str]:
        gateway = RoutingGateway(pages)
        await gateway.monitor.read_all()
        await gateway.serve(chat(1))
        home = (await gateway.order(chat(2))).ready[0].replica
        assert home is not None
        other = next(status for status in gateway.monitor.statuses() if status.name != home.name)
        for name in names(gateway.choices):
            status = gateway.monitor.status(name)
            assert status is not None
            gateway.routing.models["m"].router.clear_cache(status.base_url)
        await gateway.routing.note_warmed(other, chat(2), WarmingKind.SYSTEM_PROMPT, 900)
        ticket = (await gateway.order(chat(2))).ready[0].replica
        assert ticket is not None
        return ticket.name == other.name, ticket.why.partition(":")[0]

    assert play(story) == (True, "warm")


@pytest.mark.parametrize(
    ("page", "own", "idle"),
    [
        (b"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n", 0, True),
        (b"vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n", 0, False),
        (b"vllm:num_requests_running 0\nvllm:num_requests_waiting 1\n", 0, False),
        (b"vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n", 1, True),
        (b"vllm:num_requests_running 2\nvllm:num_requests_waiting 0\n", 1, False),
    ],
)
def test_replica_is_idle_once_it_has_no_calls(page, own, idle):
    async def story(pages: PlayedPages) -> tuple[bool, bool]:
        for host in "a:1", "b:2", "c:3":
            pages.answers[f"http://{host}/metrics"] = page
        gateway = RoutingGateway(pages)
        tickets = []
        for _ in range(own):  # at work while the page is read
            ticket = (await gateway.order(chat(1))).ready[0].replica
            assert ticket is not None
            ticket.send()
            tickets.append(ticket)
        await gateway.monitor.read_all()
        name = tickets[0].name if tickets else "house:0"
        status = gateway.monitor.status(name)
        assert status is not None
        during = gateway.routing.is_idle(status)
        for ticket in tickets:
            ticket.end(None, is_comparable=False)
        return during, gateway.routing.is_idle(status)

    assert play(story) == (idle and not own, idle)


@pytest.mark.parametrize(
    ("table", "page", "slots"),
    [
        ("", b"vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n", 0),
        ("max_sequences = 8", b"vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n", 8),
        ("max_sequences = 8", b"vllm:num_requests_running 4\nvllm:num_requests_waiting 1\n", 4),
        ("max_sequences = 2", b"vllm:num_requests_running 2\nvllm:num_requests_waiting 5\n", 0),
    ],
)
def test_a_ticket_counts_the_slots_that_other_gateways_leave(table, page, slots):
    async def story(pages: PlayedPages) -> int:
        pages.answers["http://a:1/metrics"] = page
        gateway = RoutingGateway(pages, f'{table}\nreplicas = ["http://a:1/v1"]\nserved_name = "m"')
        own = (await gateway.order(chat(1))).ready[0].replica
        assert own is not None
        own.send()  # at work while the page is read
        await gateway.monitor.read_all()
        ticket = (await gateway.order(chat(2))).ready[0].replica
        assert ticket is not None
        return ticket.slots

    assert play(story) == slots
