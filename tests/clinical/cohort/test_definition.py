"""Definitions and mappings: shipped ones are whole, wrong ones say what is wrong."""

import hashlib

import pytest

from clinical.cohort.definition import (
    SCHEMAS,
    Episode,
    Index,
    Readmission,
    load_definition,
    load_schema,
)
from domainbert.errors import UserError

MAPPING = """
[admissions]
table = "stays"
patient_id = "p"
stay_id = "s"
admit_time = "a"
discharge_time = "d"
"""


def test_the_shipped_definition():
    definition = load_definition()
    assert (definition.name, definition.readmission.horizon_days) == (
        "readmission-30d",
        30,
    )
    assert definition.readmission.planned_types == (
        "ELECTIVE",
        "SURGICAL SAME DAY ADMISSION",
    )
    assert (
        definition.sha256
        == hashlib.sha256(definition.text.encode()).hexdigest()
    )
    assert definition.text not in repr(definition)


def test_every_rule_has_its_reason():
    text = load_definition().text
    lines = text.splitlines()
    keys = [
        key
        for table in (Episode, Index, Readmission)
        for key in table.model_fields
    ]
    assert len(keys) == 12
    for key in keys:
        places = [
            n
            for n, line in enumerate(lines)
            if line.lstrip("# ").startswith(f"{key} =")
        ]
        assert lines[places[0] - 1].startswith("#")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "horizon_days =",
            "horizon_day =",
            r"n\.toml: \[readmission\] horizon_day: no such setting; expected .* horizon_days",
        ),
        (
            "horizon_days = 30",
            "horizon_days = 0",
            r"\[readmission\] horizon_days: expected a number above 0, got 0",
        ),
        (
            "horizon_days = 30",
            "horizon_days = true",
            "horizon_days: expected a number, got True",
        ),
        (
            "gap_hours = 0",
            "gap_hours = -1",
            r"\[episode\] transfer_gap_hours: expected a number of at least 0, got -1",
        ),
        (
            "gap_hours = 0",
            "gap_hours = nan",
            "transfer_gap_hours: expected .*a finite number, got nan",
        ),
        (
            "gap_hours = 0",
            "gap_hours = 1e18",
            r"\[episode\] transfer_gap_hours: expected a number of at most 876600, got 1e\+18",
        ),
        (
            "horizon_days = 30",
            "horizon_days = 1e9",
            r"\[readmission\] horizon_days: expected a number of at most 36525, got 1",
        ),
        (
            "death_tolerance_minutes = 0",
            "death_tolerance_minutes = 1e300",
            "death_tolerance_minutes: expected a number of at most 5.2596e",
        ),
        (
            '"keep"\n',
            '"drop"\n',
            r"death_after_discharge: expected 'keep' or 'exclude', got 'drop'",
        ),
        (
            '["NEWBORN"]',
            '"NEWBORN"',
            "newborn_types: expected a list, got 'NEWBORN'",
        ),
        (
            'version = "1.1.0"',
            "",
            r"definition\.toml: version: this setting is required",
        ),
        ("[index]", "[index", r"definition\.toml is not TOML"),
    ],
)
def test_a_wrong_definition(tmp_path, old, new, message):
    path = tmp_path / "definition.toml"
    path.write_text(load_definition().text.replace(old, new))
    with pytest.raises(UserError, match=message):
        load_definition(path)


def test_a_definition_that_is_not_there(tmp_path):
    with pytest.raises(
        UserError, match=r"none\.toml cannot be read .*FileNotFoundError"
    ):
        load_definition(tmp_path / "none.toml")


@pytest.mark.parametrize(
    "name", [name for name in SCHEMAS if name != "generic"]
)
def test_the_shipped_schemas(name):
    schema = load_schema(name)
    assert schema.discharge_categories[0] == "DISCHARGE SUMMARY"
    assert {"admit_time", "discharge_time"} <= set(schema.admissions.columns)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "[admissions]",
            "[admission]",
            r"admission: no such setting; expected one of .*admissions",
        ),
        (
            "patient_id =",
            "patientid =",
            r"\[admissions\] patientid: no such setting; expected .*patient_id",
        ),
        (
            'stay_id = "s"',
            "",
            r"columns\.toml: \[admissions\] stay_id: this setting is required",
        ),
        ('stay_id = "s"', "stay_id = 5", r"stay_id\.0: expected text, got 5"),
        ('table = "stays"', "table = []", "table: expected text"),
        (
            '"d"',
            '"d"\ntime_format = "%Q"',
            r"time_format: expected codes such as .*, got .*%Q",
        ),
        (MAPPING, "[notes]", "admissions: this setting is required"),
    ],
)
def test_a_wrong_mapping(tmp_path, old, new, message):
    path = tmp_path / "columns.toml"
    path.write_text(MAPPING.replace(old, new))
    with pytest.raises(UserError, match=message):
        load_schema("generic", mapping=path)


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({}, "readmission-30d 1.1.0"),
        (
            {"died_locations": '["GONE"]', "planned_types": "[]"},
            "readmission-30d 1.1.0, changed: died_locations, planned_types",
        ),
        ({"minimum_age": 18}, "readmission-30d 1.1.0, changed: minimum_age"),
        ({"name": '"mine"', "horizon_days": 90}, "mine 1.1.0"),
    ],
)
def test_an_edited_definition_says_what_was_changed(define, changes, label):
    assert load_definition(define(**changes)).label == label


def test_another_outcome_under_a_shipped_name_is_a_change(define):
    text = load_definition("death-30d").text.replace(
        '"death-30d"', '"readmission-30d"'
    )
    path = define()
    path.write_text(text)
    changed = "changed: outcome, planned_types, death_after_discharge"
    assert load_definition(path).label == f"readmission-30d 1.1.0, {changed}"
