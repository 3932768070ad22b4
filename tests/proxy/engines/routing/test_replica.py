from proxy.engines.routing.replica import CallsInFlight, LoadReport, ReplicaCandidate


def test_calls_of_others_are_what_a_report_has_beyond_ones_own():
    flight = CallsInFlight()
    flight.calls = 5

    assert flight.other_calls(LoadReport(at=0, running=6, waiting=3)) == (1, 3)
    assert flight.other_calls(LoadReport(at=0, running=4, waiting=2)) == (0, 1)


def test_a_report_older_than_ones_own_calls_never_counts_below_nought():
    flight = CallsInFlight()
    flight.calls = 5

    assert flight.other_calls(LoadReport(at=0, running=1)) == (0, 0)
    assert flight.other_calls(None) == (0, 0)


def test_a_replica_is_healthy_and_of_no_region_unless_said_otherwise():
    replica = ReplicaCandidate(name="a")

    assert (replica.is_healthy, replica.region) == (True, "")
