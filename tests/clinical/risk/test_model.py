import math

import numpy as np
import pandas as pd
import pytest

import clinical
from clinical import ReadmissionModel, ReadmissionSettings
from clinical.stays.stays import clean
from domainbert.encoders.loading import EncoderError
from domainbert.errors import UserError
from domainbert.statistics.calibration import calibrated
from domainbert.text.windows import LONGEST_TEXT

NOTE = "Patient admitted with chest pain. Denies fever.\n1. Heart failure [**Name 12**] stable. "
LONG = NOTE * 12


def test_one_note_and_a_stay_of_one_note_are_the_same(model):
    assert model.predict(NOTE) == model.predict([NOTE])


def test_the_rule_joins_the_windows(model):
    risk = model.predict([LONG, NOTE])
    values = [window.probability for window in risk.windows]
    assert len(values) > 3
    assert risk.score == pytest.approx(
        clinical.aggregate(values, model.c), abs=1e-12
    )
    assert risk.p_max == max(values)
    assert risk.p_mean == pytest.approx(np.mean(values))
    assert risk.status == "ok"


def test_every_token_is_scored_and_every_span_is_in_the_original(
    model, tokenizer
):
    risk = model.predict([NOTE, LONG])
    assert risk.coverage.characters == len(NOTE) + len(LONG)
    assert risk.coverage.windows == len(risk.windows)
    assert not risk.coverage.unread
    notes = [clean(NOTE), clean(LONG)]
    for note in (0, 1):
        spans = [(w.start, w.end) for w in risk.windows if w.note == note]
        assert all(
            a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False)
        )
        between = "".join(
            notes[note][a:b]
            for a, b in zip(
                [0, *(e for _, e in spans)],
                [*(s for s, _ in spans), None],
                strict=True,
            )
        )
        assert not between.strip()


def test_a_new_note_moves_no_old_window(model):
    before = model.predict([LONG]).windows
    after = model.predict([LONG, NOTE]).windows
    assert [(w.start, w.end) for w in before] == [
        (w.start, w.end) for w in after if w.note == 0
    ]
    assert [w.probability for w in before] == pytest.approx(
        [w.probability for w in after if w.note == 0], abs=1e-5
    )


def test_joined_notes_are_windowed_as_one_text(network, tokenizer):
    joined = ReadmissionModel(
        network, tokenizer, settings=ReadmissionSettings(join_notes=True)
    )
    apart = ReadmissionModel(network, tokenizer)
    assert (
        joined.predict([NOTE, NOTE]).coverage.windows
        < apart.predict([NOTE] * 2).coverage.windows
    )


def test_cleaning_can_be_switched_off(network, tokenizer):
    raw = ReadmissionModel(
        network, tokenizer, settings=ReadmissionSettings(clean_notes=False)
    )
    clean = ReadmissionModel(network, tokenizer)
    assert (
        raw.predict(NOTE).coverage.tokens > clean.predict(NOTE).coverage.tokens
    )


@pytest.mark.parametrize("batch_tokens", [1, 70, 500, 100_000])
def test_the_numbers_do_not_depend_on_batch_or_company(
    network, tokenizer, batch_tokens
):
    stays = [[NOTE], [LONG], [NOTE[:30]], [LONG, NOTE], [LONG[:400]]] * 3
    alone = ReadmissionModel(network, tokenizer, batch_tokens=1)
    model = ReadmissionModel(network, tokenizer, batch_tokens=batch_tokens)
    order = np.random.default_rng(0).permutation(len(stays))
    results = list(model.predict_many([stays[i] for i in order]))
    for place, result in zip(order, results, strict=True):
        assert result.probability == pytest.approx(
            alone.predict(stays[place]).probability, abs=1e-5
        )


def test_results_come_in_order(model):
    stays = [NOTE, "", LONG, None, NOTE]
    results = list(model.predict_many(stays))
    assert [r.status for r in results] == ["ok", "empty", "ok", "empty", "ok"]


def test_results_come_while_the_input_is_still_being_read(network, tokenizer):
    model = ReadmissionModel(network, tokenizer, batch_tokens=64)
    read = []

    def stays():
        for number in range(2000):
            read.append(number)
            yield NOTE

    first = next(model.predict_many(stays()))
    assert first.status == "ok"
    assert len(read) < 500


@pytest.mark.parametrize(
    ("stay", "status", "reason"),
    [
        ("", "empty", "no note of this stay has any text"),
        (" \n\t", "empty", "no note of this stay has any text"),
        (None, "empty", "no note of this stay has any text"),
        (math.nan, "empty", "no note of this stay has any text"),
        ([], "empty", "no note of this stay has any text"),
        ([None, ""], "empty", "no note of this stay has any text"),
        (
            b"abc",
            "error",
            r"note 0 is bytes, not text; decode it first: note.decode\(\)",
        ),
        (["fine", 3], "error", "note 1 is int, not text"),
        (7, "error", "note 0 is int, not text"),
        (
            pd.DataFrame({"stay": ["1"], "letter": ["fine"]}),
            "error",
            "note 0 is DataFrame, not text; for a table use score_frame",
        ),
    ],
)
def test_bad_stays_cost_no_other(model, stay, status, reason):
    results = list(model.predict_many([NOTE, stay, NOTE]))
    assert [r.status for r in results] == ["ok", status, "ok"]
    assert math.isnan(results[1].probability)
    assert results[1].windows == ()
    if status == "empty":  # one contract for one stay and for many
        alone = model.predict(stay)
        assert (alone.status, alone.reason) == (status, results[1].reason)
        return
    with pytest.raises(ValueError, match=reason):
        model.predict(stay)


def test_a_stay_that_cannot_even_be_listed_costs_no_other(model):
    def torn():
        yield NOTE
        raise RuntimeError("the source went away")

    stays = [NOTE, np.array(NOTE), np.array(7), torn(), NOTE]
    results = list(model.predict_many(stays))
    assert [r.status for r in results] == ["ok", "ok", "error", "error", "ok"]
    assert results[3].reason == "its notes cannot be read (RuntimeError)"
    assert results[1].score == pytest.approx(results[0].score, abs=1e-6)


def test_a_bare_string_is_not_many_stays(model):
    with pytest.raises(
        UserError, match=r"stays is a str; .*: predict for one stay"
    ):
        model.predict_many(NOTE)
    with pytest.raises(UserError, match="stays is a bytes"):
        model.predict_many(NOTE.encode())


@pytest.mark.parametrize(
    "stays", [pd.DataFrame({"text": [NOTE]}), {"text": [NOTE]}]
)
def test_a_table_is_not_read_by_its_names(model, stays):
    with pytest.raises(
        UserError,
        match=r"expected a list of stays: .* score_frame for a DataFrame",
    ):
        model.predict_many(stays)


def test_a_note_beyond_the_limit_costs_only_its_stay(model):
    endless = "!" * (LONGEST_TEXT + 1)
    risks = list(model.predict_many([NOTE, [NOTE, endless], NOTE]))
    assert [risk.status for risk in risks] == ["ok", "error", "ok"]
    assert risks[1].reason.startswith(
        "note 1 has 5,000,001 characters, expected at most"
    )


def test_a_table_of_arrays_of_notes_as_pandas_reads_them(model):
    frame = pd.DataFrame(
        {"stay_id": ["1"], "text": [np.array([NOTE, LONG], dtype=object)]}
    )
    assert model.score_frame(frame)["score"].tolist() == [
        model.predict([NOTE, LONG]).score
    ]


def test_a_window_without_a_number_costs_only_its_stay(model, monkeypatch):
    logits = model.runner.logits

    def broken(windows):
        values = logits(windows)
        values[1] = np.nan  # of NOTE[:30]: equal windows are scored once
        return values

    alone = model.predict(NOTE).score
    monkeypatch.setattr(model.runner, "logits", broken)
    first, second, third = model.predict_many(
        [NOTE, [NOTE, NOTE[:30], NOTE], NOTE]
    )
    assert (first.status, second.status, third.status) == ("ok", "error", "ok")
    assert second.reason == "the model gave no number for window 1"
    assert math.isnan(second.probability)
    assert second.windows == ()
    assert third.score == pytest.approx(alone, abs=1e-5)


def test_without_a_calibrator_the_probability_is_the_score_and_it_is_said_once(
    model, caplog
):
    for _ in range(2):
        risk = model.predict(NOTE)
        assert risk.probability == risk.score
        assert risk.calibrated is False
        assert risk.alert is None
    assert caplog.text.count("no calibrator") == 1


def test_the_calibrated_probability_decides_the_alert(
    network, tokenizer, caplog
):
    raw = ReadmissionModel(network, tokenizer).predict(NOTE).score
    expected = float(calibrated(raw, 1.5, -2.0))
    for threshold, alert in (
        (expected - 1e-9, True),
        (expected + 1e-3, False),
    ):
        settings = ReadmissionSettings(
            calibration=(1.5, -2.0), alert_threshold=threshold
        )
        caplog.clear()
        risk = ReadmissionModel(network, tokenizer, settings=settings).predict(
            NOTE
        )
        assert "no calibrator" not in caplog.text
        assert risk.score == pytest.approx(raw, abs=1e-6)
        assert risk.probability == pytest.approx(expected, abs=1e-6)
        assert (
            risk.probability < raw
        )  # the threshold on the score would alert for everyone
        assert risk.alert is alert


def test_what_cannot_be_read_is_on_the_receipt(model):
    risk = model.predict(["ok \u2603 then \x01\x02 end", None])
    reasons = [
        (u.note, u.start, u.end, u.reason) for u in risk.coverage.unread
    ]
    assert (0, 3, 4, "not in the vocabulary") in reasons
    assert (0, 10, 12, "control characters or undecodable bytes") in reasons
    assert (1, 0, 0, "missing") in reasons


def test_the_receipt_counts_what_de_identification_left_in_each_note(model):
    risk = model.predict(["<DATE>: seen by ___", "fever", None, "[**Name**]"])
    assert risk.coverage.placeholders == {0: 2, 3: 1}


def test_save_and_load(model, tmp_path):
    model.settings = ReadmissionSettings(
        window=48, c=4.0, calibration=(1.5, -0.5), alert_threshold=0.6
    )
    model.save_pretrained(tmp_path / "saved")
    loaded = ReadmissionModel.from_pretrained(tmp_path / "saved")
    assert loaded.settings == model.settings
    again = ReadmissionModel(
        model.network, model.tokenizer, settings=model.settings
    )
    one, two = again.predict(LONG), loaded.predict(LONG)
    assert two.probability == pytest.approx(one.probability, abs=1e-6)
    assert two.score == pytest.approx(one.score, abs=1e-6)
    assert two.calibrated is True
    assert two.score != two.probability
    card = (tmp_path / "saved" / "README.md").read_text()
    assert "c = 4.0" in card
    assert "Nothing was measured" in card


def test_a_one_label_checkpoint_from_elsewhere_loads(tokenizer, tmp_path):
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        num_labels=1,
    )
    elsewhere = BertForSequenceClassification(config).eval()
    elsewhere.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = ReadmissionModel.from_pretrained(tmp_path)
    window = tokenizer(
        NOTE, truncation=True, max_length=40, return_tensors="pt"
    )
    with torch.inference_mode():
        expected = torch.sigmoid(elsewhere(**window).logits).item()
    assert model.predict_windows([window["input_ids"][0].numpy()])[
        0
    ] == pytest.approx(expected, abs=1e-5)
    assert model.predict(LONG).coverage.windows > 1


def test_an_encoder_without_a_head_says_how_to_train_one(tiny_encoder):
    with pytest.raises(EncoderError, match="without a trained head") as error:
        ReadmissionModel.from_pretrained(tiny_encoder)
    assert (
        f"clinical train COHORT.parquet --encoder {tiny_encoder} --out MODEL"
        in str(error.value)
    )


def test_a_misspelled_shipped_name_is_no_hub_id():
    with pytest.raises(
        EncoderError, match=r"not shipped .* Did you mean 'readmission-demo'"
    ):
        ReadmissionModel.from_pretrained("readmission-dmo")


def test_window_and_overlap_are_checked(network, tokenizer):
    with pytest.raises(
        ValueError, match="window must be between 3 and 64, got 512"
    ):
        ReadmissionModel(
            network, tokenizer, settings=ReadmissionSettings(window=512)
        )
    with pytest.raises(ValueError, match="overlap must be between 0 and 61"):
        ReadmissionModel(
            network, tokenizer, settings=ReadmissionSettings(overlap=62)
        )
    with pytest.raises(
        ValueError, match="c: expected a number above 0, got 0"
    ):
        ReadmissionSettings(c=0)


def test_settings_of_the_wrong_type_are_refused():
    with pytest.raises(
        UserError, match="window: expected a whole number, got 'a'"
    ):
        ReadmissionSettings(window="a")
    with pytest.raises(
        UserError, match="join_notes: expected true or false, got 'no'"
    ):
        ReadmissionSettings(join_notes="no")


def test_a_stay_that_grows_by_a_note_a_day_costs_its_new_windows(
    network, tokenizer, tmp_path
):
    from domainbert.scoring.cache import WindowCache

    model, plain = (ReadmissionModel(network, tokenizer) for _ in range(2))
    words = "heart failure insulin pain dyspnea edema fever kidney renal chest".split()
    notes = [f"{word} patient was treated " * 30 for word in words]
    model.cache = WindowCache(
        tmp_path / "windows.sqlite", model=model.fingerprint()
    )
    asked, scored, logits = [], [], model.cache.logits

    def counted(windows, score):
        asked.extend(windows)
        return logits(windows, lambda some: scored.extend(some) or score(some))

    model.cache.logits = counted
    for day in range(1, len(notes) + 1):
        grown, expected = (
            model.predict(notes[:day]),
            plain.predict(notes[:day]),
        )
        assert grown.score == pytest.approx(expected.score, abs=1e-6)
    once = plain.predict(notes).coverage.windows
    assert once > 10
    assert len(scored) <= 1.2 * once
    assert len(asked) - len(scored) > 3 * once


def test_completion_shows_what_users_call(model):
    shown = dir(model)
    assert {
        "predict",
        "score_frame",
        "explain",
        "show",
        "save_pretrained",
    } <= set(shown)
    assert all(hasattr(model, name) for name in shown)


@pytest.mark.parametrize("kind", [list, np.int32, np.int16, np.uint8])
def test_token_ids_may_be_lists_or_integers_of_any_type(model, kind):
    windows = [np.array([2, 5, 6, 3]), np.array([2, 7, 3])]
    expected = model.predict_windows(windows)
    others = [w.tolist() if kind is list else w.astype(kind) for w in windows]
    np.testing.assert_allclose(model.predict_windows(others), expected)


@pytest.mark.parametrize("window", [[2.0, 3.0], [], [[2, 3]], ["a"]])
def test_a_window_that_holds_no_token_ids_is_refused(model, window):
    with pytest.raises(
        UserError, match="expected token ids in one row, such as"
    ):
        model.predict_windows([window])


@pytest.mark.parametrize("threshold", [5, -0.1, math.nan])
def test_an_alert_threshold_is_a_probability(threshold):
    with pytest.raises(UserError, match="alert_threshold"):
        ReadmissionSettings(alert_threshold=threshold)
