from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical import ReadmissionModel, ReadmissionSettings
from clinical.stays.stays import OTHER_LANGUAGE, clean, is_english
from tests.timing import assert_linear_time

MIMIC = """Admission Date:  [**2151-7-16**]   Discharge Date: [**2151-8-4**]
Name: ___    Attending: [**First Name3 (LF) 1234**]
1. Congestive heart failure, EF 35.5%
 2) Diabetes, 2.5 mg
----------
Call 911 if worse. 3. not a section
"""


def test_marks_go_and_everything_else_stays_where_it_was():
    cleaned = clean(MIMIC)
    assert len(cleaned) == len(MIMIC)
    assert "[**" not in cleaned
    assert "2151" not in cleaned
    assert "_" not in cleaned
    assert "---" not in cleaned
    for kept in (
        "Congestive heart failure",
        "35.5%",
        "2.5 mg",
        "911",
        "3. not a section",
    ):
        assert cleaned.index(kept) == MIMIC.index(kept)
    assert "1. Congestive" not in cleaned


def test_line_breaks_survive_inside_marks():
    assert clean("a [**Known\nlastname**] b").count("\n") == 1


@given(st.text(alphabet="[]*_-=. \n12ab)(", max_size=200))
def test_a_character_is_itself_or_a_space(text):
    cleaned = clean(text)
    assert len(cleaned) == len(text)
    assert all(
        new in (old, " ") for new, old in zip(cleaned, text, strict=True)
    )


@pytest.mark.parametrize("mark", ["[**", "_", " "])
def test_hostile_marks_take_linear_time(mark):
    assert_linear_time(lambda count: partial(clean, mark * count), 100_000)


SPANISH = (
    "Paciente de 71 años con insuficiencia cardíaca descompensada que ingresa por disnea. "
    "Se inicia tratamiento con furosemida y es dado de alta para control en una semana."
)
GERMAN = "Der Patient wurde mit Fieber aufgenommen und nicht operiert. Es war der dritte Tag."
ENGLISH = [
    "Pt c/o CP, r/o MI. Para 2 gravida 3. EKG nl. d/c home.",
    "71M with decompensated heart failure, seen by Dr. von der Mit and the wound team.",
    "fever",
    "",
]


def test_notes_in_another_language_are_remarked_on_or_refused(model):
    assert not any(
        map(is_english, (SPANISH, GERMAN, "Пациент поступил с жалобами"))
    )
    assert all(map(is_english, ENGLISH))
    risk = model.predict(SPANISH)
    assert (risk.status, risk.reason) == ("ok", OTHER_LANGUAGE)
    assert model.predict(ENGLISH[1]).reason == ""
    frame = pd.DataFrame(
        {"stay_id": ["1", "2"], "text": [SPANISH, ENGLISH[1]]}
    )
    assert OTHER_LANGUAGE in model.score_frame(frame)["reason"].iloc[0]
    assert (
        OTHER_LANGUAGE
        in model.score_frame(frame, task="trajectory")["reason"].iloc[0]
    )
    for setting, status in (("error", "error"), ("accept", "ok")):
        settings = ReadmissionSettings(other_languages=setting)
        other = ReadmissionModel(
            model.network, model.tokenizer, settings=settings
        )
        (found,) = other.predict_many([SPANISH])
        assert found.status == status
        assert np.isnan(found.probability) == (status == "error")
        assert bool(found.reason) == (status == "error")


def test_a_risk_is_a_small_table_in_a_notebook(model):
    risk = model.predict("He lives alone. Chest pain.")
    page = risk._repr_html_()
    assert "<th>probability</th>" in page
    assert f"<td>{risk.coverage.tokens}</td>" in page
    assert "lives alone" not in page


@pytest.mark.parametrize(
    "text",
    [
        "Patienten blev indlagt med hjertesvigt og udskrevet til hjemmet.",
        "Potilas tuotiin sairaalaan. Hoito furosemidilla, kotiin.",
        "Pacientka byla p\u0159ijata. Propu\u0161t\u011bna dom\u016f.",
        "Pacientul a fost internat pentru insuficien\u021b\u0103 cardiac\u0103.",
        # lists without common words
        "Diagnosen: Pneumonie. Therapie: Ceftriaxon 2 g. Ramipril 5 mg 1-0-0",
        "MOTIF: pneumonie. TRAITEMENT: ceftriaxone 2 g IV. SORTIE: domicile.",
    ],
)  # fmt: skip
def test_short_notes_in_other_languages_are_not_english(text):
    assert not is_english(text)


@pytest.mark.parametrize(
    "text",
    [
        "CHF exac. IV Lasix 40 BID. Cr 1.2. D/C SNF.",
        "67M AMS, UTI. CTX x3d. A&Ox3 at dc. FU PCP 1wk.",
        "Dr. M\u00fcller and Dr. N\u00fa\u00f1ez consulted; continue abx.",
        "G3P2, para 2. Levothyroxine 50 \u00b5g daily.",
    ],
)
def test_abbreviated_notes_with_foreign_names_are_english(text):
    assert is_english(text)
