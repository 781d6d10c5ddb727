"""Definitions and mappings: shipped ones are whole, wrong ones say what is wrong."""

import hashlib

import pytest

from clinical.cohort import Definition, DefinitionError, load_definition
from clinical.cohort.schemas import SCHEMAS, load_schema

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
    assert (definition.name, definition.horizon_days) == ("readmission-30d", 30)
    assert definition.planned_types == ("ELECTIVE", "SURGICAL SAME DAY ADMISSION")
    assert definition.sha256 == hashlib.sha256(definition.text.encode()).hexdigest()
    assert definition.text not in repr(definition)


def test_every_rule_has_its_reason():
    text = load_definition().text
    for key in Definition.__dataclass_fields__:
        lines = text.splitlines()
        places = [n for n, line in enumerate(lines) if line.lstrip("# ").startswith(f"{key} =")]
        assert key in ("name", "version", "text") or lines[places[0] - 1].startswith("#")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("horizon_days =", "horizon_day =", "unknown key 'readmission.horizon_day'; did you mean"),
        ("horizon_days = 30", "horizon_days = 0", "horizon_days must be a number above 0, got 0"),
        ("horizon_days = 30", "horizon_days = true", "must be a number above 0, got True"),
        ("gap_hours = 0", "gap_hours = -1", "gap_hours must be a number >= 0, got -1"),
        ("gap_hours = 0", "gap_hours = nan", "gap_hours must be a number >= 0, got nan"),
        ('"keep"\n', '"drop"\n', 'must be "keep" or "exclude", got \'drop\''),
        ('["NEWBORN"]', '"NEWBORN"', "newborn_types must be a list of text"),
        ('version = "1.0.0"', "", r"has no 'version'; take the line from readmission-30d\.toml"),
        ("[index]", "[index", r"definition\.toml is not TOML"),
    ],
)
def test_a_wrong_definition(tmp_path, old, new, message):
    path = tmp_path / "definition.toml"
    path.write_text(load_definition().text.replace(old, new))
    with pytest.raises(DefinitionError, match=message):
        load_definition(path)


def test_a_definition_that_is_not_there(tmp_path):
    with pytest.raises(DefinitionError, match=r"none\.toml cannot be read .*FileNotFoundError"):
        load_definition(tmp_path / "none.toml")


@pytest.mark.parametrize("name", [name for name in SCHEMAS if name != "generic"])
def test_the_shipped_schemas(name):
    schema = load_schema(name)
    assert schema.discharge_categories == ("DISCHARGE SUMMARY",)
    assert {"admit_time", "discharge_time"} <= set(schema.admissions.columns)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[admissions]", "[admission]", "unknown key 'admission'; did you mean 'admissions'"),
        ("patient_id =", "patientid =", "unknown key 'patientid'; did you mean 'patient_id'"),
        ('stay_id = "s"', "", r"has no 'stay_id'; add: stay_id ="),
        ('stay_id = "s"', "stay_id = 5", "stay_id must be text or a list of text, got 5"),
        ('table = "stays"', "table = []", "table must be text or a list of text"),
        ('"d"', '"d"\ntime_format = "%Q"', "time_format '%Q' is not understood"),
        (MAPPING, "[notes]", r"has no \[admissions\] table; it needs table, patient_id"),
    ],
)
def test_a_wrong_mapping(tmp_path, old, new, message):
    path = tmp_path / "columns.toml"
    path.write_text(MAPPING.replace(old, new))
    with pytest.raises(DefinitionError, match=message):
        load_schema("generic", mapping=path)
