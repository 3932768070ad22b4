from proxy.prefix.explain.reasons import CacheMiss, MissReason, ReasonConfidence


def test_reasons_are_kept_as_text():
    assert f"{MissReason.FIRST_SEEN}" == "first_seen"
    assert MissReason("provider_side") is MissReason.PROVIDER_SIDE
    assert f"{ReasonConfidence.LIKELY}" == "likely"


def test_a_miss_read_from_a_ledger_may_lack_how_sure_it_was():
    assert CacheMiss(reason=MissReason.EXPIRED).confidence is None
