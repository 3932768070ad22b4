from proxy.catalog.catalog import Catalog
from proxy.pages.resources.ledger.ledger_resources import LedgerResources
from proxy.pages.store_questions import StoreQuestions
from proxy.store.store import Store
from tests.fakes.admin_api import NOW, AdminApi
from tests.fakes.call_dependencies import LoopTasks
from tests.fakes.chaos import two_model_catalog
from tests.fakes.receipts import a_receipt


def test_ledger_resources_take_providers_from_the_catalog_in_force(store: Store) -> None:
    catalogs: list[Catalog] = [two_model_catalog()]

    def make(ask: StoreQuestions):
        router, *_ = LedgerResources.of(
            store, (ask, LoopTasks()), lambda: catalogs[-1], lambda: (), lambda: NOW
        ).routers()
        return router

    upstream = next(iter(catalogs[0].upstreams.values()))
    api = AdminApi(store, make)
    api.keep(a_receipt(1, started=NOW - 10, upstream=upstream.name))
    (layer,) = api.ok("/costs", by="provider")["series"]

    assert layer["value"] == (upstream.provider or upstream.name)
