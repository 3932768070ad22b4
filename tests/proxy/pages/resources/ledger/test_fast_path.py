import asyncio
from collections import OrderedDict, deque
from types import SimpleNamespace
from typing import cast

import pytest
from fastapi import APIRouter

from dashboards.access import Role
from dashboards.views.fast_path import WrongHit
from proxy.calls.answer_cache_port import AnswerCachePort
from proxy.fast_path.similarity.evidence import no_evidence
from proxy.fast_path.small_first.judge_channel import JudgeError
from proxy.fast_path.small_first.loss_control import LossPromise, new_control
from proxy.pages.resources.ledger.fast_path import FastPathResource
from proxy.pages.store_questions import StoreQuestions
from proxy.records.receipt import ServedBy
from proxy.services.fast_path.similar_answer_cache import SimilarAnswerCache
from proxy.services.fast_path.small_first import SmallFirstRouting
from proxy.services.fast_path.small_first_states import TeamControl
from proxy.store.sql.ids import id_floor
from proxy.store.sql.views.fast_path import FastPathRules
from proxy.store.store import Store
from slo.policies.answer_cache import AnswerCachePolicy
from tests.fakes.admin_api import ADMIN, DAY, NOW, AdminApi, of_team
from tests.fakes.receipts import a_receipt


@pytest.fixture
def api(store: Store) -> AdminApi:
    control = new_control(LossPromise(max_loss=0.02, error=JudgeError(0.1, 0.1)))
    states = OrderedDict({(team, "mini"): TeamControl(control) for team in ("a", "b")})
    rules = FastPathRules(
        answer_cache=(AnswerCachePolicy(name="faq", similar=True, show_wrong=True),)
    )
    evidence = {(team, "faq"): no_evidence() for team in ("a", "b")}
    similar = SimilarAnswerCache(
        cast("AnswerCachePort", SimpleNamespace(flights=None)), evidence=evidence
    )
    similar._wrong["a", "faq"] = deque([WrongHit(checked_at=NOW, asked="my salary?", answer="9")])
    routing = cast("SmallFirstRouting", SimpleNamespace(states=states))

    def make(ask: StoreQuestions) -> APIRouter:
        resource = FastPathResource(ask, lambda: NOW)
        resource.rules = lambda: rules
        resource.small_first = lambda: routing
        resource.similar = lambda: similar
        return resource.router()

    return AdminApi(store, make)


def keep_hits(api: AdminApi) -> None:
    started = NOW - DAY
    api.keep(*(
        a_receipt(
            n, call_id=f"{id_floor(started)[:-4]}{n:04x}", started=started, team=team,
            feature="faq", served_by=ServedBy.CACHE, fast_path_nanos=n,
        )
        for n, team in ((5, "a"), (7, "b"))
    ))  # fmt: skip


def test_a_viewer_reads_rules_calls_savings_and_bounds_of_own_teams(api: AdminApi) -> None:
    keep_hits(api)
    body = api.ok("/fast-path", of_team("a"))

    (row,) = body["features"]
    assert (row["team"], row["cached_calls"]) == ("a", 1)
    assert [(rule["part"], rule["text"], rule["is_on"]) for rule in row["rules"]] == [
        ("answer_cache", "faq, similar questions too", True)
    ]
    assert (body["saved_nanos"], body["parts"][0]["part"]) == (5, "cache")
    assert [(bound["team"], bound["max_loss"]) for bound in body["proved"]] == [("a", 0.02)]
    assert [(proof["team"], proof["bound"]) for proof in body["similar"]] == [("a", 1.0)]


def test_the_quality_of_small_models_is_known_once_answers_were_compared() -> None:
    control = new_control(LossPromise(max_loss=0.02, error=JudgeError(0.1, 0.1)))
    states = OrderedDict({("a", "mini"): TeamControl(control)})
    resource = FastPathResource(cast("StoreQuestions", None), lambda: NOW)
    resource.small_first = lambda: cast("SmallFirstRouting", SimpleNamespace(states=states))

    assert asyncio.run(resource.quality_bounds(ADMIN, {})) == (None, None)
    control.calls, control.small, control.judged = 100, 10, 20
    assert asyncio.run(resource.quality_bounds(ADMIN, {"team": "a"})) == (
        control.proved_loss(),
        None,
    )
    assert asyncio.run(resource.quality_bounds(of_team("b"), {})) == (None, None)
    assert asyncio.run(resource.quality_bounds(ADMIN, {"feature": "faq"})) == (None, None)


def test_an_admin_reads_all_teams_and_may_filter_one(api: AdminApi) -> None:
    keep_hits(api)

    assert api.ok("/fast-path")["saved_nanos"] == 12
    filtered = api.ok("/fast-path", team="b")
    assert filtered["saved_nanos"] == 7
    assert [bound["team"] for bound in filtered["proved"]] == ["b"]
    assert [proof["team"] for proof in filtered["similar"]] == ["b"]


@pytest.mark.parametrize(
    ("role", "texts"),
    [
        (Role.TEAM_ADMIN, ("my salary?", "9")),
        (Role.VIEWER, ("", "")),
        (Role.FINANCE, ("", "")),
    ],
)
def test_texts_of_wrong_hits_are_for_those_who_may_see_calls(
    api: AdminApi, role: Role, texts: tuple[str, str]
) -> None:
    proofs = api.ok("/fast-path", of_team("a", role=role), team="a")["similar"]

    ((hit,),) = [proof["last_wrong"] for proof in proofs]
    assert (hit["asked"], hit["answer"]) == texts
    assert hit["checked_at"] == NOW
