"""The clock, the peak memory, and the turns of the ways that are compared."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.measuring import (
    ATTEMPTS,
    QuietMachine,
    fastest_size,
    in_new_process,
    print_cost,
    resident_bytes,
    take_turns,
)

BALLAST = 100 * 2**20  # bytes; the system counts memory in steps


def test_the_ways_take_turns_and_the_last_result_counts():
    calls = []

    def way(name):
        calls.append(name)
        return len(calls)

    ways = {"ours": lambda: way("ours"), "theirs": lambda: way("theirs")}
    results, seconds = take_turns(ways, rounds=2)
    assert calls == ["ours", "theirs", "ours", "theirs"]
    assert results == {"ours": 3, "theirs": 4}
    assert [len(values) for values in seconds.values()] == [2, 2]


def test_the_fastest_size_is_the_one_that_takes_the_least_time():
    assert (
        fastest_size(lambda size: time.sleep(abs(size - 4) / 100), (1, 4, 16))
        == 4
    )


def test_a_peak_is_that_of_the_process_and_not_of_the_one_that_started_it(
    tmp_path,
):
    ballast = b"1" * BALLAST
    here = resident_bytes(peak=True)
    script = tmp_path / "child.py"
    script.write_text(
        "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    )
    assert here > 0.9 * len(ballast)
    assert 1024 * in_new_process(script) < 0.5 * BALLAST


def test_memory_that_was_given_back_still_counts_for_the_peak():
    ballast = b"1" * BALLAST
    before = resident_bytes(peak=True)
    del ballast
    assert resident_bytes() < before - 0.5 * BALLAST
    assert resident_bytes(peak=True) > before - 0.1 * BALLAST


def test_a_process_that_has_ended_has_no_memory():
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    while "Z" not in _state(child.pid):
        time.sleep(0.01)
    assert resident_bytes(child.pid) == 0
    child.wait()


def _state(process):
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2]


def rounds_of(calibrations):
    """What a machine with these calibrations keeps of the attempts 1, 2, …, and its verdict."""
    seconds = iter([1.0] * 5 + calibrations)
    machine = QuietMachine(lambda: next(seconds))
    attempts = iter(range(1, ATTEMPTS + 1))
    kept = machine.measure("round 1", lambda: next(attempts))
    assert not list(seconds)
    return kept, machine.verdict()


@pytest.mark.parametrize(
    ("calibrations", "attempt"),
    [
        ([1.05, 1.0], 1),
        ([1.2, 1.0, 1.0, 1.0], 2),  # other work at its start
        ([1.0, 3.0, 1.0, 1.2, 1.1, 1.0], 3),  # and at its end, twice
        ([0.8, 0.8], 1),  # faster than ever before
        ([0.8, 1.0, 0.8, 0.85], 2),  # so the first five were not quiet
    ],
)
def test_a_disturbed_round_is_measured_again(calibrations, attempt):
    assert rounds_of(calibrations) == (attempt, "yes")


def test_what_is_disturbed_in_every_attempt_is_named():
    kept, verdict = rounds_of([1.0, 2.0] * ATTEMPTS)
    assert kept == ATTEMPTS
    assert verdict == "not in round 1, after 3 attempts"


def test_the_cost_of_a_call_is_one_line_of_json(capsys):
    print_cost(lambda: time.sleep(0.02))
    cost = json.loads(capsys.readouterr().out)
    assert cost["seconds"] >= 0.02
    assert cost["peak"] > 2**20


def test_only_the_last_line_of_a_process_counts(tmp_path):
    script = tmp_path / "child.py"
    script.write_text(
        "import sys\nprint('noise')\nprint('[1, \"' + sys.argv[1] + '\"]')"
    )
    assert in_new_process(script, tmp_path.name) == [1, tmp_path.name]
