"""Sentences of each kind with what is right, in text files beside this one."""

import re
from pathlib import Path

import pytest

from biomed.notes.assertion import assert_spans
from biomed.notes.dosages import dosages
from biomed.notes.medications import read_medications
from biomed.notes.sections import sections
from biomed.notes.slips import is_measured
from tests.biomed.notes.test_medications import marked, read

_ORDER = ("first", "second", "third")


def lines_of(name):
    """The lines of a file as pairs: what is read, and what is right."""
    text = Path(__file__).with_name(name).read_text("utf-8")
    rows = [line for line in text.splitlines() if not line.startswith("#")]
    return [tuple(part.strip() for part in row.split("=>")) for row in rows]


@pytest.mark.parametrize(("line", "expected"), lines_of("section_names.txt"))
def test_section_names(line, expected):
    """The usual spellings of headings, with the section of the last one."""
    assert sections(line.replace("\\n", "\n"))[-1].name == expected


@pytest.mark.parametrize(("line", "expected"), lines_of("amounts.txt"))
def test_amounts(line, expected):
    assert read(line) == [expected]


@pytest.mark.parametrize(("line", "expected"), lines_of("drugs_of_others.txt"))
def test_drugs_of_others(line, expected):
    """A drug is taken by the one who is said to take it."""
    name, assertion = expected.split(":")
    start = line.index(name)
    spans = [(start, start + len(name), "Drug")]
    assert assert_spans(line, spans) == [assertion]


@pytest.mark.parametrize(("line", "expected"), lines_of("lab_lines.txt"))
def test_lab_lines(line, expected):
    """A substance with a level is no drug; one with a dose is."""
    pieces = re.split(r"[\[\]]", line)
    text = "".join(pieces)
    start = 0
    for before, name in zip(pieces[::2], pieces[1::2], strict=False):
        start += len(before)
        end = start + len(name)
        assert is_measured(text, start, end, "Chemical") == (expected == "yes")
        start = end


@pytest.mark.parametrize(("line", "expected"), lines_of("drug_lines.txt"))
def test_drug_lines(line, expected):
    """A bracket after a drug is another name of it, or says something of another drug."""
    drugs = read(line)
    names = [part.strip() for part in expected.split("|")]
    assert drugs == names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DOE: 1/2/1980.", True),
        ("EDD 12/06/2024", True),
        ("DOI: 2019-10-10", True),
        ("DOE for two weeks.", False),
        ("DOE: 2 flights", False),
        ("CVA 12/06/2024", False),
    ],
)
def test_a_field_with_a_date_is_no_disease(text, expected):
    assert is_measured(text, 0, 3, "Disease") == expected


def test_another_name_is_no_other_drug():
    text, spans = marked("{Prinivil} ({lisinopril}), {NSAIDs} ({ibuprofen})")
    drugs = read_medications(text, spans)
    assert [drug.same_as for drug in drugs] == [None, 0, None, None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [*lines_of("drug_status.txt"), *lines_of("drug_changes.txt")],
)
def test_statuses(line, expected):
    """A verb says something about the drug that it governs, and about no other."""
    text, spans = marked(line)
    drugs = read_medications(text, spans)
    assert " | ".join(drug.status or "-" for drug in drugs) == expected


@pytest.mark.parametrize(("sig", "expected"), lines_of("dosages.txt"))
def test_dosages(sig, expected):
    """Amounts that are not read whole have no code, and other doses no order."""
    (drug,) = read_medications(f"aspirin {sig}", [(0, 7, "Drug")])
    assert " | ".join(map(written, dosages(drug.attributes))) == expected


def written(dosage):
    """A FHIR Dosage in short."""
    parts = []
    for name, value in dosage.get("doseAndRate", [{}])[0].items():
        ends = [value["low"], value["high"]] if "low" in value else [value]
        numbers = " to ".join(f"{end['value']:.10g}" for end in ends)
        unit = ends[0].get("code", ends[0]["unit"])
        parts.append(f"{'rate ' * name.startswith('rate')}{numbers} {unit}")
    repeat = dosage.get("timing", {}).get("repeat", {})
    assert isinstance(repeat.get("frequency", 1), int)
    if "frequency" in repeat:
        most = repeat.get("frequencyMax")
        times = str(repeat["frequency"]) + (f" to {most}" if most else "")
        parts.append(f"{times}/{repeat['period']}{repeat['periodUnit']}")
    if "count" in repeat:
        parts.append(f"count {repeat['count']}")
    parts += repeat.get("when", [])
    if "boundsDuration" in repeat:
        bounds = repeat["boundsDuration"]
        parts.append(f"for {bounds['value']:g} {bounds['code']}")
    if "sequence" in dosage:
        parts.append(_ORDER[dosage["sequence"] - 1])
    return ", ".join(parts)
