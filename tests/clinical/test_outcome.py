"""What people read of a model names the outcome that it was trained for."""

import re

import pytest

from clinical import ReadmissionModel, ReadmissionSettings
from clinical.report.facts import gather
from clinical.stays.choice import NoteChoice
from tests.clinical.report.conftest import made_up

EVENTS = {
    "died within 30 days of discharge": "death within 30 days of discharge",
    "stayed longer than 7 days": "stay longer than 7 days",
    "readmitted within 30 days of discharge": "unplanned readmission within 30 days of discharge",
}


@pytest.mark.parametrize("event", EVENTS)
def test_card_page_and_facts_name_the_outcome_of_the_definition(
    new_network, tokenizer, tmp_path, event
):
    choice = NoteChoice(
        notes="discharge",
        summaries=("DISCHARGE SUMMARY",),
        transfer_gap_hours=0.0,
        definition="mine 1.0.0",
        definition_sha256="0",
        event=event,
    )
    model = ReadmissionModel(
        new_network(), tokenizer, settings=ReadmissionSettings(notes=choice)
    )
    model.save_pretrained(tmp_path / "model")
    loaded = ReadmissionModel.from_pretrained(tmp_path / "model")
    assert loaded.outcome == EVENTS[event]
    said = {
        "card": (tmp_path / "model" / "README.md").read_text(),
        "page": loaded.show("Chest pain. Heart failure.")._repr_html_(),
        "title": gather(loaded, made_up(200), name="mine")["title"],
    }
    for name, text in said.items():
        assert EVENTS[event] in text.lower(), name
        if "readmi" not in event:
            assert not re.search("(?i)readmi(?!ssionModel)", text), name


@pytest.mark.parametrize("event", EVENTS)
def test_the_service_card_names_the_outcome(
    new_network, tokenizer, tmp_path, event
):
    pytest.importorskip("starlette")
    from clinical.bedside.cards import risk_statement
    from clinical.risk.task import ReadmissionTask

    model = ReadmissionModel(new_network(), tokenizer)
    assert (
        ReadmissionTask(model).about()["outcome"] == EVENTS[list(EVENTS)[-1]]
    )
    row = {"probability": 0.21, "calibrated": True, "n_tokens": 9}
    summary, statement = risk_statement(row, EVENTS[event])
    text = f"{summary} {statement}"
    assert summary.lower().startswith(f"{EVENTS[event]}: 21% risk")
    assert event.startswith("readmitted") or "readmi" not in text
