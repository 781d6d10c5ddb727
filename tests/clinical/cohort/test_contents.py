"""A source without an admission or a note of a type that is read is refused with what it has."""

import pytest

from clinical.cohort.build import build_cohort
from domainbert.errors import UserError
from domainbert.tables import TableError

from .conftest import by_stay
from .small import FORMS, NOTES, tables, write

MAIN = {
    "mimic3": "ADMISSIONS", "mimic4": "admissions", "generic": "encounters",
    "omop": "VISIT_OCCURRENCE", "meds": "HOSPITAL_ADMISSION", "fhir": "Encounter",
}  # fmt: skip
# A column that says what a row of the admissions is, a value of no admission, and the message.
OTHERS = {
    "generic": ("encounters", "Class", "2", "Class is 1, but Class 2 (4)"),
    "omop": ("VISIT_OCCURRENCE", "visit_concept_id", "9202", "but visit_concept_id 9202 (4)"),
    "fhir": ("Encounter", "class", "AMB", "but class AMB (4)"),
    "meds": ("data", "code", "VISIT//1", "and the source has VISIT (13). If one of these"),
}  # fmt: skip


def refusal(folder, form, spoiled, **options) -> str:
    with pytest.raises(UserError) as refused:
        build_cohort(**write(folder, form, spoiled), **options)
    return str(refused.value)


@pytest.mark.parametrize("form", ["omop", "generic"])
def test_a_folder_of_workbooks_is_told_what_is_read(tmp_path, form):
    options = write(tmp_path, form, {})
    (tmp_path / "stays.xlsx").write_bytes(b"PK")
    message = r"Found there: nothing \(of a folder: .csv, .tsv and .parquet"
    with pytest.raises(TableError, match=message):
        build_cohort(**options)


@pytest.mark.parametrize("form", [*OTHERS])
def test_without_an_admission_the_values_there_are_named(tmp_path, form):
    spoiled = tables(form)
    table, column, value, said = OTHERS[form]
    spoiled[table][column] = value
    message = refusal(tmp_path / form, form, spoiled)
    assert f"has no admission: {MAIN[form]} has no row" in message
    assert said in message
    is_own = form == "generic"
    assert message.endswith(
        "in the mapping"
        if is_own
        else f"{form}.toml, passed as `mapping='FILE'`"
    )


@pytest.mark.parametrize(
    "form", [form for form in FORMS if form not in ("meds", "fhir")]
)
def test_a_table_of_admissions_without_a_row_is_refused(tmp_path, form):
    spoiled = tables(form)
    spoiled[MAIN[form]] = spoiled[MAIN[form]].head(0)
    assert refusal(tmp_path / form, form, spoiled).endswith(
        f"{MAIN[form]} has no row"
    )


def test_lines_that_are_no_rows_are_counted_in_the_refusal(tmp_path):
    options = write(tmp_path / "own", "generic", tables("generic"))
    path = options["source"] / "encounters.csv"
    header = path.read_text().split("\n")[0]
    path.write_text(f"{header}\n(0 rows affected)\n")
    with pytest.raises(
        UserError, match="has no row, and 1 lines that cannot be read as rows"
    ):
        build_cohort(**options)


@pytest.mark.parametrize("form", [form for form in FORMS if form != "mimic4"])
def test_without_a_summary_the_types_of_the_notes_are_named(tmp_path, form):
    kinds = ["Entlassbrief", "Entlassbrief", "Radiology", "Radiology"]
    notes = [
        (n[0], n[1], kind, *n[3:])
        for n, kind in zip(NOTES, kinds, strict=True)
    ]
    spoiled = tables(form, notes=notes)
    if form == "omop":
        spoiled["NOTE"]["note_title"] = kinds
    message = refusal(tmp_path / form, form, spoiled)
    assert "has no discharge summary (DISCHARGE SUMMARY" in message
    assert "but notes of the types Entlassbrief (2), Radiology (2)" in message
    assert 'discharge_categories = ["its name"]' in message


def test_the_option_of_the_refusal_reads_the_notes(tmp_path):
    notes = [(n[0], n[1], "Entlassbrief", *n[3:]) for n in NOTES]
    options = write(
        tmp_path / "own", "generic", tables("generic", notes=notes)
    )
    text = options["mapping"].read_text()
    options["mapping"].write_text(
        text.replace('"Discharge summary"', '"entlassbrief"')
    )
    assert by_stay(build_cohort(**options))["31"]["text"] == ["Summary of 31."]


def test_early_prediction_from_summaries_alone_is_refused(tmp_path):
    message = refusal(
        tmp_path / "a", "mimic3", tables("mimic3"), notes="early"
    )
    assert "only discharge summaries, Discharge summary (4)" in message
    assert message.endswith("predict at discharge (`notes='discharge'`)")


@pytest.mark.parametrize("form", ["mimic3", "generic", "omop"])
@pytest.mark.parametrize("kind", ["no rows", "no texts"])
def test_a_source_without_texts_has_labels(tmp_path, form, kind):
    name = {"mimic3": "NOTEEVENTS", "generic": "letters", "omop": "NOTE"}[form]
    spoiled = tables(form, notes=[(*note[:4], "") for note in NOTES])
    if kind == "no rows":
        spoiled[name] = spoiled[name].head(0)
    rows = by_stay(build_cohort(**write(tmp_path / form, form, spoiled)))
    assert {row["exclusion"] for row in rows.values()} == {
        "no_text",
        "died_in_hospital",
    }
