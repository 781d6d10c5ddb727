"""The true remaining risk after days without a readmission."""

import pytest

from benchmarks.after_discharge import remaining_risk


@pytest.mark.parametrize(
    ("day", "remaining"),
    [
        (0, 0.2),
        # Half of the readmissions are over, and half of the deaths: 0.1 / (1 - 0.1 - 0.04).
        (15, 0.1 / 0.86),
        (29, 0.0),
    ],
)
def test_readmissions_and_deaths_come_evenly(day, remaining):
    risk = remaining_risk(0.2, day, death_share=0.1)
    assert risk == pytest.approx(remaining)


def test_without_deaths_a_day_before_the_first_changes_nothing():
    assert remaining_risk(0.2, 1, death_share=0.0) == pytest.approx(0.2)
