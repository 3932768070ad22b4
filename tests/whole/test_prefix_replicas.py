"""One conversation through two gateway processes that share a store: the same bytes arrive."""

import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, product
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import orjson
import psycopg
import pytest

from proxy.prefix.layouts.order import INTRODUCTION
from proxy.prefix.planned import PlanningRequest, layout_place
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.store.sql.settings.layout_rows import Proposal
from tests.bench.prefix_traffic import TimedQuestion, User
from tests.bench.prefix_ways import variable_first
from tests.fakes.badly_built import raw_bodies
from tests.fakes.conversations import CONVERSATIONS, TOOLS
from tests.fakes.handbook import dice, handbook, question
from tests.fakes.postgres import SERVER, schema
from tests.fakes.prefix_harness import MODELS
from tests.fakes.recorded import RecordedDialogue
from tests.fakes.replicas import Replicas, replicas

PLANNED = {"as sent": PlanningMode.OFF, "auto": PlanningMode.AUTO}
BUILT = {"well": RecordedDialogue.bodies, "badly": raw_bodies}
GROWN = "grown"
FEATURES = {
    **{"/".join(key): PLANNED[key[0]] for key in product(PLANNED, BUILT, MODELS)},
    **{f"learnt/{regime}": PlanningMode.APPLY for regime in MODELS},
    **{f"{GROWN}/{regime}": PlanningMode.OBSERVE for regime in MODELS},
}
#: What opens the text that was moved to the end.
ARRIVED = INTRODUCTION.strip().encode()
#: A mark of Anthropic's.
MARK = re.compile(rb',"cache_control":\{[^}]*\}')
Json = dict[str, Any]
T = TypeVar("T")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replicas]:
    folder = tmp_path_factory.mktemp("replicas")
    if request.param == "sqlite":
        with replicas(folder, modes=FEATURES) as running:
            yield running
        return
    try:
        psycopg.connect(SERVER, connect_timeout=3).close()
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL at THRIFTGATE_TEST_POSTGRES ({SERVER}): {error}")
    with schema() as url, replicas(folder, url, modes=FEATURES) as running:
        yield running


def name_model(body: bytes, model: str) -> bytes:
    assert body.startswith(b'{"model":"any"')
    return body.replace(b'"any"', f'"{model}"'.encode(), 1)


def bare(came: tuple[str, bytes]) -> tuple[str, bytes]:
    """Body that arrived, without marks: each process earns its own, and no prefix holds them."""
    return came[0], MARK.sub(b"", came[1])


@pytest.mark.parametrize("mode", PLANNED)
@pytest.mark.parametrize("built", BUILT)
@pytest.mark.parametrize("regime", MODELS)
def test_whichever_of_two_gateways_is_asked_the_same_bytes_arrive(
    cluster: Replicas, regime: str, built: str, mode: str
) -> None:
    """A conversation begins at one of them; each in turn is the first to see a later call."""
    feature = f"{mode}/{built}/{regime}"
    for number, one in enumerate(CONVERSATIONS):
        for step, raw in enumerate(BUILT[built](one)):
            body = name_model(raw, MODELS[regime])
            turns = ((number + step) % 2, (number + step + 1) % 2)[: 2 if step else 1]
            came = [
                cluster.upstream_request(number, body, feature=feature, now=0.0) for number in turns
            ]

            assert bare(came[0]) == bare(came[-1]), (one.name, step)
            assert mode != "as sent" or regime == "anthropic-breakpoint" or came[0][1] == body


@pytest.mark.parametrize("regime", MODELS)
def test_a_conversation_that_begins_at_both_goes_on_alike_at_both(
    cluster: Replicas, regime: str
) -> None:
    feature = f"auto/well/{regime}"
    bodies = (said(f"twice {regime}", turns, MODELS[regime]) for turns in range(4))
    calls = [
        [cluster.upstream_request(number, body, feature=feature, now=0.0) for number in (0, 1)]
        for body in bodies
    ]

    assert all(bare(one) == bare(other) for one, other in calls[1:])


def said(seed: str, turns: int, model: str, **fields: Any) -> bytes:
    """The call of a made-up conversation that holds so many answers."""
    messages: list[Json] = [{"role": "system", "content": handbook(14, "short")}]
    for turn in range(turns):
        messages.append({"role": "user", "content": question(f"{seed}/{turn}")})
        messages.append({"role": "assistant", "content": f"Case {turn} is with the billing desk."})
    messages.append({"role": "user", "content": question(f"{seed}/{turns}")})
    return orjson.dumps({"model": model, "messages": messages, **fields})


@pytest.mark.parametrize("regime", MODELS)
def test_a_tool_that_is_added_midway_comes_last_wherever_it_is_first_seen(
    cluster: Replicas, regime: str
) -> None:
    """Tools come shuffled; the later of two new ones would come first by its name."""
    roll = dice("midway", regime)
    *usual, sends, finds = sorted(TOOLS, key=lambda tool: -len(str(tool)))
    offers = [usual, usual, [*usual, sends], [*usual, sends, finds], [*usual, finds], TOOLS]
    brought = [shuffle(offered, roll) for offered in offers]
    lists = []
    for step, (which, tools) in enumerate(zip((0, 1, 0, 1, 0, 1), brought, strict=True)):
        body = said(regime, step, MODELS[regime], tools=tools)
        _, came = cluster.upstream_request(which, body, feature=f"{GROWN}/{regime}", now=0.0)
        lists.append([name(tool) for tool in orjson.loads(came)["tools"]])

    order = [*map(name, brought[0]), name(sends), name(finds)]
    assert lists == [[tool for tool in order if tool in set(map(name, offer))] for offer in offers]


def shuffle(tools: Any, roll: Random) -> list[Json]:
    return roll.sample(list(tools), len(tools))


def name(tool: Json) -> str:
    return str(tool.get("function", tool)["name"])


def test_an_approved_layout_reaches_running_conversations_at_both_gateways(
    cluster: Replicas,
) -> None:
    """Text that changes per call cuts them off, so the gateway that knows them loses nothing."""
    users = count()
    proposals = {
        regime: until(partial(proposal_after_call, cluster, regime, users)) for regime in MODELS
    }
    old = begun(cluster, users, arranged=False)
    for regime, proposal in proposals.items():
        cluster.store.layouts.approve(where(cluster, regime), proposal.version, "ana", 0.0)
    for regime, which in product(MODELS, (0, 1)):  # Each hears of it by itself.
        until(partial(heard, cluster, which, regime, users))
    new = begun(cluster, users, arranged=True)

    for regime, is_new in product(MODELS, (False, True)):
        for user in (new if is_new else old)[regime]:
            steps = [
                [
                    cluster.upstream_request(
                        number,
                        asks(user, turn, regime),
                        feature=learning_feature(regime),
                        now=0.0,
                    )
                    for number in (which, 1 - which)
                ]
                for which, turn in ((1, 1), (0, 2), (1, 3))
            ]
            arranged = [ARRIVED in came[1] for step in steps for came in step]

            # The gateway that never saw the conversation cannot tell that it is cut off.
            assert all(bare(one) == bare(other) for one, other in steps[1:])
            assert arranged == [is_new or arranged[0], *[True] * 5]


def proposal_after_call(cluster: Replicas, regime: str, users: Iterator[int]) -> Proposal | None:
    """The layout that is proposed once another user was heard; None if there is none yet."""
    user = next(users)
    assert not any(is_arranged(cluster, 0, regime, user, turn) for turn in range(3))
    return next(iter(cluster.store.layouts.proposals(where(cluster, regime))), None)


def begun(cluster: Replicas, users: Iterator[int], *, arranged: bool) -> dict[str, tuple[int, int]]:
    """For each regime a user whose conversation began at the one gateway, and one at the other."""
    users_by_regime = {regime: (next(users), next(users)) for regime in MODELS}
    for regime, which in product(MODELS, (0, 1)):
        assert is_arranged(cluster, which, regime, users_by_regime[regime][which]) == arranged
    return users_by_regime


def heard(cluster: Replicas, which: int, regime: str, users: Iterator[int]) -> bool | None:
    """True once the gateway arranges what another user says."""
    return is_arranged(cluster, which, regime, next(users)) or None


def is_arranged(cluster: Replicas, which: int, regime: str, user: int, turn: int = 0) -> bool:
    _, came = cluster.upstream_request(
        which, asks(user, turn, regime), feature=learning_feature(regime), now=0.0
    )
    return ARRIVED in came


def learning_feature(regime: str) -> str:
    return f"learnt/{regime}"


def where(cluster: Replicas, regime: str) -> LayoutScope:
    """Return where the layouts of the feature that learns are."""
    feature = cluster.place(learning_feature(regime))
    request = PlanningRequest(team=feature.team, feature=feature.feature, key="", body=b"")
    return layout_place(request, MODELS[regime])


def asks(number: int, turn: int, regime: str) -> bytes:
    """A call of a user who was never met before, built with what varies first."""
    user = User(number=number, name=f"User {number}", plan="plus", city="Porto", since=2020)
    call = TimedQuestion(at=turn * 40.0 + number, user=user, turn=turn)
    history: list[Json] = []
    for before in range(turn):
        history.append(
            {"role": "user", "content": TimedQuestion(at=0.0, user=user, turn=before).question}
        )
        history.append({"role": "assistant", "content": f"Case {before} is with the floor lead."})
    return orjson.dumps({"model": MODELS[regime], **variable_first(call, history, regime)})


def until(look: Callable[[], T | None]) -> T:
    """Return what is found in the end; it is looked for at most twenty seconds."""
    end = time.monotonic() + 20.0
    while time.monotonic() < end:
        it = look()
        if it is not None:
            return it
    raise AssertionError("never found")


def test_two_replicas_share_keys_and_ledger(cluster: Replicas) -> None:
    first, second = cluster.gateways

    assert first.database_url == second.database_url
    assert first.folder != second.folder
    assert Path(first.folder, "journal").exists()
    assert Path(second.folder, "journal").exists()
