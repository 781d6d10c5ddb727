"""An encoder that takes thousands of tokens: the same windows, rule and coverage."""

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    ModernBertConfig,
    ModernBertForMaskedLM,
    ModernBertForSequenceClassification,
    PreTrainedTokenizerFast,
)

from clinical import ReadmissionModel, ReadmissionSettings
from clinical.risk.aggregation import aggregate
from clinical.training.training import ReadmissionRecipe, ReadmissionTable, fit
from domainbert.encoders.classifier import CLSClassifier
from domainbert.encoders.loading import find_encoder, load_tokenizer
from domainbert.errors import UserError
from domainbert.text.windows import Windower
from domainbert.training.settings import TrainingSettings

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
NOTE = "Patient admitted with chest pain and fever. History of heart failure.\nStable; home. "


@pytest.fixture(scope="module")
def byte_tokenizer():
    """As ModernBERT's: pieces of bytes, a space at the start of a word."""
    bare = Tokenizer(models.BPE(unk_token="[UNK]"))
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=SPECIAL,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    bare.train_from_iterator([NOTE * 5], trainer)
    ends = [(token, bare.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    bare.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=bare,
        **dict(zip(names, SPECIAL, strict=True)),
        model_max_length=8192,
    )


def config(tokenizer, positions):
    return ModernBertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=positions,
        pad_token_id=tokenizer.pad_token_id,
        cls_token_id=tokenizer.cls_token_id,
        sep_token_id=tokenizer.sep_token_id,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
        num_labels=1,
        initializer_range=0.3,
    )


def folder_of(network, tokenizer, folder):
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=[2048, 8192])
def checkpoint(request, byte_tokenizer, tmp_path_factory):
    """A folder with a trained head, as others publish it."""
    torch.manual_seed(0)
    network = ModernBertForSequenceClassification(
        config(byte_tokenizer, request.param)
    )
    folder = tmp_path_factory.mktemp("modern")
    return folder_of(network, byte_tokenizer, folder), request.param


@pytest.mark.slow
def test_the_same_windows_rule_and_coverage(checkpoint, byte_tokenizer):
    folder, limit = checkpoint
    model = ReadmissionModel.from_pretrained(folder)
    notes = [NOTE * (limit // 20), "fever \x01 and pain", NOTE]
    risk = model.predict(notes)
    lengths = [len(ids) for ids in model.token_ids([notes])[0]]
    assert 0.85 * limit < max(lengths) <= limit
    content = [
        byte_tokenizer(note, add_special_tokens=False)["input_ids"]
        for note in notes
    ]
    assert (
        risk.coverage.tokens
        == sum(map(len, content))
        == sum(lengths) - 2 * len(lengths)
    )
    assert risk.coverage.unread == ()
    assert [w.note for w in risk.windows] == [0] * (len(lengths) - 2) + [1, 2]
    first = [w for w in risk.windows if w.note == 0]
    assert first[0].start == 0
    assert first[-1].end == len(notes[0])
    assert all(
        a.end == b.start for a, b in zip(first, first[1:], strict=False)
    )
    probabilities = [w.probability for w in risk.windows]
    assert risk.score == pytest.approx(aggregate(probabilities, 2.0))
    assert np.ptp(probabilities) > 1e-4
    # Hugging Face's own class gives the same number for a window that is not padded.
    plain = ModernBertForSequenceClassification.from_pretrained(folder).eval()
    ids = model.token_ids([notes])[0][0]
    with torch.no_grad():
        expected = torch.sigmoid(plain(torch.tensor(ids)[None]).logits)[0, 0]
    assert probabilities[0] == pytest.approx(float(expected), abs=1e-5)


def test_the_numbers_do_not_depend_on_the_company(checkpoint):
    model = ReadmissionModel.from_pretrained(
        checkpoint[0], batch_tokens=20_000
    )
    texts = [NOTE * n for n in (1, 30, 2, 60)]
    together = [risk.score for risk in model.predict_many(texts)]
    alone = [model.predict(text).score for text in texts]
    assert together == pytest.approx(alone, abs=1e-5)


@pytest.mark.parametrize("window", [16, 1000, 2048])
def test_the_window_is_a_setting_up_to_the_limit(checkpoint, window):
    loaded = ReadmissionModel.from_pretrained(checkpoint[0])
    settings = ReadmissionSettings(window=window)
    model = ReadmissionModel(
        loaded.network, loaded.tokenizer, settings=settings
    )
    lengths = [len(ids) for ids in model.token_ids([NOTE * 300])[0]]
    assert 0.8 * window < max(lengths) <= window
    too_large = ReadmissionSettings(window=checkpoint[1] + 1)
    with pytest.raises(
        UserError, match=f"window must be between 3 and {checkpoint[1]}"
    ):
        ReadmissionModel(loaded.network, loaded.tokenizer, settings=too_large)
    with pytest.raises(
        ValueError, match="window: expected a number of at least 16, got 15"
    ):
        ReadmissionTable(window=15)


def test_windows_of_a_byte_level_tokenizer_end_at_sentences(byte_tokenizer):
    windower = Windower(byte_tokenizer, window=200, limit=2048)
    text = NOTE * 40
    parts = windower.split(text).windows
    ends = [text[part.start : part.end].rstrip(" ")[-1] for part in parts]
    assert len(parts) > 3
    assert set(ends) <= {".", "\n"}


def test_a_bare_long_encoder_is_trained_and_saved_as_an_adapter(
    byte_tokenizer, tmp_path
):
    torch.manual_seed(0)
    network = ModernBertForMaskedLM(config(byte_tokenizer, 2048))
    encoder = folder_of(network, byte_tokenizer, tmp_path / "encoder")
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 40)
    cohort = pd.DataFrame(
        {
            "patient_id": [f"p{i}" for i in range(40)],
            "stay_id": [f"s{i}" for i in range(40)],
            "text": [["fever pain" if y else "stable home"] for y in label],
            "readmitted": label,
            "split": ["train"] * 28 + ["val"] * 12,
        }
    )
    recipe = ReadmissionRecipe(
        model=ReadmissionTable(encoder=str(encoder), window=256),
        training=TrainingSettings(epochs=1, batch_tokens=512),
    )
    model = fit(cohort, recipe)
    model.save_pretrained(tmp_path / "model")
    assert (tmp_path / "model" / "adapter_model.safetensors").is_file()
    again = ReadmissionModel.from_pretrained(tmp_path / "model")
    assert again.predict([NOTE]).score == pytest.approx(
        model.predict([NOTE]).score, abs=1e-6
    )
    assert again.window_tokens() == 256


def test_bert_keeps_its_own_class(tiny_encoder):
    training = TrainingSettings()
    model = ReadmissionModel.untrained(tiny_encoder, training=training)
    assert type(model.network) is CLSClassifier
    assert load_tokenizer(find_encoder(tiny_encoder)).is_fast
