"""The load of the service, and notes that no cache knows."""

import json

import pytest

from benchmarks.clients import request_bodies, with_mark
from benchmarks.service import Throughput, background_rate, repeated


def test_the_rate_of_short_stays_makes_up_the_load():
    """Summaries of 0.5 s every 2 s are a load of 0.25; 0.45 of 20 stays a second remain."""
    assert background_rate([0.4, 0.6], 20.0) == pytest.approx(9.0)
    with pytest.raises(SystemExit, match="more than the load"):
        background_rate([1.5], 20.0)


def test_every_sentence_has_a_mark():
    notes = with_mark(["Home. Well.", "Died."], "s1x")
    assert notes == ["Home s1x0. Well s1x0.", "Died s1x1."]
    (body, _) = request_bodies(["Home.", "Died."], "b")
    assert json.loads(body) == {"records": [{"text": ["Home b0."]}]}


def test_notes_are_repeated_from_the_first():
    assert repeated(["a", "b"], 5) == ["a", "b", "a", "b", "a"]


def test_busy_shares_are_of_all_cores(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    measured = Throughput(10, service=[4.0])
    measured.processor |= {"service": [5.0], "clients": [1.0]}
    assert measured.busy_shares() == [0.75]
    assert measured.stays_a_second() == 2.5
    assert measured.measured()["service"] == [2.5]
    assert measured.measured()["processor clients"] == [1.0]
