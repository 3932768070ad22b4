from proxy.engines.state.replica_report import FINAL_STATES, LOST_STATES, ProcessState


def test_a_replica_that_was_asked_to_stop_is_not_lost():
    assert {ProcessState.STOPPED} == FINAL_STATES - LOST_STATES
    assert ProcessState.RESTARTING not in FINAL_STATES
