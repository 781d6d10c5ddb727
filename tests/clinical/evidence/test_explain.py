import numpy as np
import pytest

import clinical
from clinical import ReadmissionModel, ReadmissionSettings
from clinical.evidence.explain import explain
from domainbert.errors import UserError

SECRET = "furosemide"
WORDS = "fever pain edema failure insulin blood chest disease"


def test_passages_are_exact_spans_with_measured_contributions(
    evidence_model, notes
):
    found = clinical.explain(evidence_model, notes, top=3)
    assert found.risk == evidence_model.predict(notes)
    assert len(found.raising) <= 3
    assert 0 < len(found.passages) <= len(found.raising) + 3
    strength = [abs(passage.value) for passage in found.passages]
    assert strength == sorted(strength, reverse=True)
    stay = evidence_model.prepared(notes)
    for passage in found.passages:
        assert notes[passage.note][passage.start : passage.end] == passage.text
        window = stay.windows[passage.window][1]
        starts = window.offsets[:, 0]
        outside = (starts < passage.start) | (starts >= passage.end)
        ids = np.concatenate(
            (
                window.input_ids[:1],
                window.input_ids[1:-1][outside],
                window.input_ids[-1:],
            )
        )
        windows = [w.input_ids for _, w in stay.windows]
        windows[passage.window : passage.window + 1] = (
            [ids] if outside.any() else []
        )
        less = clinical.aggregate(
            evidence_model.predict_windows(windows), evidence_model.c
        )
        assert passage.score_contribution == pytest.approx(
            found.risk.score - less, abs=1e-5
        )
        change = found.risk.probability - float(
            evidence_model.calibrated(less)
        )
        assert passage.probability_contribution == pytest.approx(
            change, abs=1e-5
        )


@pytest.mark.parametrize("n_windows", [50, 80])
def test_explaining_reads_at_most_four_times_the_tokens_of_the_stay(
    network, tokenizer, monkeypatch, n_windows
):
    settings = ReadmissionSettings(window=64, calibration=(1.0, 0.0))
    model = ReadmissionModel(network, tokenizer, settings=settings)
    # A note is a window of eight sentences.
    note = " ".join(f"He has {word} and {word}." for word in WORDS.split())
    tokens = []
    read = model.runner.logits
    monkeypatch.setattr(
        model.runner,
        "logits",
        lambda rows: tokens.extend(map(len, rows)) or read(rows),
    )
    notes = [f"{number} {note}" for number in range(n_windows)]
    found = explain(model, notes, top=2)
    assert len(found.risk.windows) == n_windows
    assert found.passages
    assert sum(tokens) <= 4 * found.risk.coverage.tokens


def test_without_all_raising_passages(evidence_model_of_words):
    notes = [
        "He lives alone.",
        "Chronic renal failure.",
        "No fever.",
        "Chest pain.",
    ]  # a window each
    found = explain(evidence_model_of_words, notes, top=1)
    (passage,) = found.raising
    others = [
        note for number, note in enumerate(notes) if number != passage.note
    ]
    assert passage.text == notes[passage.note]
    assert found.without_raising == pytest.approx(
        evidence_model_of_words.predict(others).probability, abs=1e-5
    )
    assert found.raising_alone == pytest.approx(
        evidence_model_of_words.predict(passage.text).probability, abs=1e-5
    )


def test_nothing_shows_the_notes_unasked(evidence_model, notes):
    found = explain(evidence_model, notes)
    assert SECRET not in repr(found) + repr(found.passages) + repr(
        found.show()
    )
    assert SECRET in "".join(found.texts.values())


def test_a_table_of_passages(evidence_model, notes):
    found = explain(evidence_model, notes)
    table = found.to_frame()
    assert list(table["text"]) == [passage.text for passage in found.passages]
    assert (
        explain(evidence_model, "").to_frame().columns.tolist()
        == table.columns.tolist()
    )


def test_a_stay_without_text_has_no_passage(evidence_model):
    found = explain(evidence_model, ["", None])
    assert (found.risk.status, found.passages, found.examined) == (
        "empty",
        (),
        (),
    )
    assert "no note of this stay has any text" in found.show()._repr_html_()


def test_a_stay_of_one_word(evidence_model):
    found = explain(evidence_model, "fever")
    assert len(found.passages) <= 1


def test_the_window_cache_keeps_whole_windows_only(
    evidence_model, notes, tmp_path
):
    from domainbert.scoring.cache import WindowCache

    plain = explain(evidence_model, notes)
    evidence_model.cache = WindowCache(
        tmp_path / "c", model="x", max_bytes=10**6
    )
    asked = []
    own = evidence_model.cache.logits
    evidence_model.cache.logits = lambda rows, run: (
        asked.append(len(rows)) or own(rows, run)
    )
    assert explain(evidence_model, notes).passages == plain.passages
    assert asked == [len(plain.risk.windows)]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"top": 0}, "top is 0; expected at least 1"),
    ],
)
def test_bad_requests(evidence_model, asked, message):
    with pytest.raises(UserError) as raised:
        explain(evidence_model, "He lives alone.", **asked)
    assert str(raised.value) == message


def test_the_direction_is_that_of_the_measured_effect(evidence_model_of_words):
    # A routine window: its sentence raises the window's probability, but the stay's mean is lower
    # with the window than without it.
    stay = ["Chest pain and edema, renal failure. Insulin missed.", "Home."]
    found = explain(evidence_model_of_words, stay, top=9)
    assert any(
        passage.value > 0 > passage.score_contribution
        for passage in found.passages
    )
    for passage in found.passages:
        assert passage.raises == (passage.score_contribution > 0)
        assert (passage.score_contribution > 0) == (
            passage.probability_contribution > 0
        )
    assert all(
        passage.probability_contribution > 0 for passage in found.raising
    )
    lowering = [passage for passage in found.passages if not passage.raises]
    assert all(passage.probability_contribution < 0 for passage in lowering)
