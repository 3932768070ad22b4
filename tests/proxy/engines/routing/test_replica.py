from proxy.engines.routing.replica import CallsInFlight, LoadReport, ReplicaCandidate


def test_calls_of_others_are_what_a_report_has_beyond_ones_own():
    assert LoadReport(at=0, running=6, waiting=3, own=5).other_calls() == (1, 3)
    assert LoadReport(at=0, running=4, waiting=2, own=5).other_calls() == (0, 1)


def test_a_report_with_fewer_calls_than_ones_own_has_none_of_others():
    assert LoadReport(at=0, running=1, own=5).other_calls() == (0, 0)


def test_calls_are_overdue_by_the_one_that_is_latest_whichever_was_sent_first():
    flight = CallsInFlight()
    assert flight.overdue_s(50.0) == 0.0
    flight.begin("long", 30_000, due=20.0)
    flight.begin("short", 100, due=2.0)
    flight.begin("middle", 1_000, due=5.0)

    assert flight.overdue_s(1.0) == 0.0
    assert flight.overdue_s(10.0) == 8.0
    flight.note_read("short", 100)
    assert flight.overdue_s(10.0) == 5.0
    flight.note_read("long", 30_000)
    flight.note_read("middle", 1_000)
    assert (flight.overdue_s(50.0), flight.prefill_tokens) == (0.0, 0)


def test_replica_is_healthy_and_of_no_region_by_default():
    replica = ReplicaCandidate(name="a")

    assert (replica.is_healthy, replica.region) == (True, "")
