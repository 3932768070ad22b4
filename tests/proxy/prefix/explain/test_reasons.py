from proxy.prefix.explain.reasons import Confidence, Miss, Reason


def test_reasons_are_kept_as_text():
    assert f"{Reason.FIRST_SEEN}" == "first_seen"
    assert Reason("provider_side") is Reason.PROVIDER_SIDE
    assert f"{Confidence.LIKELY}" == "likely"


def test_a_miss_read_from_a_ledger_may_lack_how_sure_it_was():
    assert Miss(reason=Reason.EXPIRED).confidence is None
