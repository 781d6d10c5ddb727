"""Text that looks like an identifier: the kinds, the places, and what is left alone."""

import json

import pytest

from domainbert.text.identifiers import (
    IDENTIFIERS,
    count_placeholders,
    find_identifiers,
)

EXAMPLES = {
    "placeholder": [
        "[**2151-7-16**]",
        "[**Known lastname 1234**]",
        "___",
        "<DATE>",
        "<PATIENT_NAME_1>",
        "[DATE]",
    ],
    "date": [
        "3/15/2021",
        "03/15/21",
        "15.3.2021",
        "2021-03-15",
        "March 15, 2021",
        "15th of March 2021",
        "Sept. 2020",
    ],
    "phone": [
        "(617) 555-0123",
        "617-555-0123",
        "pager 12345",
        "+44 20 7946 0958",
    ],
    "record_number": [
        "MRN: 4471120",
        "123-45-6789",
        "account number 99120045",
    ],
    "email": ["jane.roe@mail.example.org"],
    "name_after_title": [
        "Dr. Okafor",
        "Mr. O’Brien",
        "Mrs Smith-Jones",
        "DR. SMITH",
    ],
    "age_over_89": ["93-year", "101 y/o"],
    "web_address": ["https://example.org", "192.0.2.17"],
    "street_address": ["12 Old Mill Road", "MA 02115"],
}
LEFT_ALONE = [
    "strength 5/5, a fraction of 3/4",
    "BP 120/80, pulse 72, O2 98",
    "glucose 100-120-140",
    "Mr. XXXX and Dr. ABCD",
    "an 89 year old",
    "may 3 mg be given",
    "<BR> 3 < 4 > 2",
    "________________",
    "T-L 3.2.1, L4-5",
    "metoprolol 12.5 mg twice a day",
]


def read(folder, *lines):
    """The places and the counts of a table with these texts, or lists of texts, in JSON lines."""
    table = folder / "notes.jsonl"
    objects = [json.dumps({"text": line}) for line in lines]
    table.write_text("\n".join([*objects, "[1]"]))
    return find_identifiers(str(table))


def test_every_kind_has_examples():
    assert EXAMPLES.keys() == IDENTIFIERS.keys()


@pytest.mark.parametrize("kind", EXAMPLES)
def test_an_example_is_one_place_of_its_kind(kind, tmp_path):
    before = "Seen, see "
    notes = [f"{before}{text}, then home." for text in EXAMPLES[kind]]
    places, counts = read(tmp_path, *notes)
    assert (counts[kind], counts[f"{kind} rows"]) == (len(notes), len(notes))
    if kind == "placeholder":
        assert places.empty
        return
    assert set(places["kind"]) == {kind}
    assert set(places["start"]) == {len(before)}
    assert list(places["end"]) == [
        len(before) + len(text) for text in EXAMPLES[kind]
    ]


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_other_text_is_left_alone(text, tmp_path):
    places, counts = read(tmp_path, f"Seen, {text}, then home.")
    assert places.empty
    assert counts == {"rows": 2, "unreadable": 1, "without text": 0}


def test_what_a_placeholder_covers_is_no_date(tmp_path):
    note = "Seen [**2021-03-15**] by Dr. [**Last Name**] on ___."
    places, counts = read(tmp_path, note)
    assert places.empty
    assert (counts["placeholder"], counts["placeholder rows"]) == (3, 1)
    assert count_placeholders(note) == 3
    assert counts["date"] == 0


def test_places_rows_and_faults_are_counted(tmp_path):
    places, counts = read(
        tmp_path,
        "3/15/2021 and 3/16/2021",
        "",
        "Mr. Roe, 3/15/2021",
        ["none", "on 3/15/2021"],
    )
    assert list(places.itertuples(index=False, name=None)) == [
        (0, "notes.jsonl line 1", 0, "date", 0, 9),
        (0, "notes.jsonl line 1", 0, "date", 14, 23),
        (2, "notes.jsonl line 3", 0, "name_after_title", 0, 7),
        (2, "notes.jsonl line 3", 0, "date", 9, 18),
        (3, "notes.jsonl line 4", 1, "date", 3, 12),
    ]
    assert counts == {
        "rows": 5,
        "unreadable": 1,
        "without text": 1,
        "date": 4,
        "date rows": 3,
        "name_after_title": 1,
        "name_after_title rows": 1,
    }
