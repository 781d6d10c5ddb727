import pytest

from biomed.notes.dosages import dosages, route_concept
from biomed.notes.medications import read_medications


def dosages_of(sig):
    (drug,) = read_medications(f"aspirin {sig}", [(0, 7, "Drug")])
    return dosages(drug.attributes)


@pytest.mark.parametrize(
    ("frequency", "repeat"),
    [
        ("daily", {"frequency": 1, "period": 1, "periodUnit": "d"}),
        ("b.i.d.", {"frequency": 2, "period": 1, "periodUnit": "d"}),
        (
            "two to three times a day",
            {
                "frequency": 2,
                "frequencyMax": 3,
                "period": 1,
                "periodUnit": "d",
            },
        ),
        ("every six hours", {"frequency": 1, "period": 6, "periodUnit": "h"}),
        (
            "q4-6h",
            {"frequency": 1, "period": 4, "periodMax": 6, "periodUnit": "h"},
        ),
        (
            "4-6 hourly",
            {"frequency": 1, "period": 4, "periodMax": 6, "periodUnit": "h"},
        ),
        ("every other day", {"frequency": 1, "period": 2, "periodUnit": "d"}),
        ("once a week", {"frequency": 1, "period": 1, "periodUnit": "wk"}),
        (
            "3 times per week",
            {"frequency": 3, "period": 1, "periodUnit": "wk"},
        ),
        ("at bedtime", {"when": ["HS"]}),
        ("in the morning and at bedtime", {"when": ["MORN", "HS"]}),
        (
            "once daily before meals",
            {"frequency": 1, "period": 1, "periodUnit": "d", "when": ["AC"]},
        ),
        ("x1", {"count": 1}),
        # Not exact: the text alone.
        ("on Mon/Wed/Fri", None),
        ("occasionally", None),
        ("12 hours on 12 hours off", None),
    ],
)
def test_timing(frequency, repeat):
    (dosage,) = dosages_of(f"5 mg {frequency}")
    assert dosage["timing"]["code"] == {"text": frequency}
    assert dosage["timing"].get("repeat") == repeat


MG = {"unit": "mg", "system": "http://unitsofmeasure.org", "code": "mg"}


@pytest.mark.parametrize(
    ("sig", "amount"),
    [
        ("5 mg", {"doseQuantity": {"value": 5, **MG}}),
        ("1,000 mg", {"doseQuantity": {"value": 1000, **MG}}),
        (
            "0-2 tablets",
            {
                "doseRange": {
                    "low": {"value": 0.0, "unit": "tablets"},
                    "high": {"value": 2.0, "unit": "tablets"},
                }
            },
        ),
        ("one-half tab", {"doseQuantity": {"value": 0.5, "unit": "tab"}}),
        ("half-tab", {"doseQuantity": {"value": 0.5, "unit": "tab"}}),
        ("1 1/2 tab", {"doseQuantity": {"value": 1.5, "unit": "tab"}}),
        # Only in the text: two of a strength, a decimal comma, a falling range.
        ("2 x 500 mg", None),
        ("0,5 mg", None),
        ("40-20 mg", None),
        ("twenty mg", {"doseQuantity": {"value": 20, **MG}}),
        ("two hundred mg", {"doseQuantity": {"value": 200, **MG}}),
        (
            "5 to 10 mg",
            {
                "doseRange": {
                    "low": {"value": 5, **MG},
                    "high": {"value": 10, **MG},
                }
            },
        ),
        # The number of tablets is the dose, and their strength is not.
        (
            "25 mg, half tablet",
            {"doseQuantity": {"value": 0.5, "unit": "tablet"}},
        ),
        ("1/2 tab", {"doseQuantity": {"value": 0.5, "unit": "tab"}}),
        (
            "12 mcg/kg/hr",
            {
                "rateQuantity": {
                    "value": 12,
                    "unit": "mcg/kg/hr",
                    "system": "http://unitsofmeasure.org",
                    "code": "ug/kg/h",
                }
            },
        ),
        # Strengths, the most that may be taken, and what is not clear.
        ("up to 3 tablets", None),
        ("5/325 mg", None),
        ("0.1% cream", None),
        ("90 mcg/actuation", None),
        ("20 mcg-0.1 mg", None),
        ("81", None),
    ],
)
def test_amount(sig, amount):
    (dosage,) = dosages_of(sig)
    assert dosage.get("doseAndRate") == ([amount] if amount else None)


def test_a_dosage_for_each_time_of_the_day():
    first, second = dosages_of("40 mg in the morning and 20 mg at night")
    assert first["text"] == "40 mg in the morning"
    assert second["doseAndRate"][0]["doseQuantity"]["value"] == 20
    assert "sequence" not in first | second


def test_route_duration_and_need():
    (dosage,) = dosages_of("500 mg p.o. b.i.d. for 2 weeks as needed")
    assert dosage["route"]["coding"][0]["code"] == "26643006"
    assert dosage["timing"]["repeat"]["boundsDuration"]["code"] == "wk"
    assert dosage["asNeededBoolean"] is True
    assert route_concept("p.o.") == 4132161
