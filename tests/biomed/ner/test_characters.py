import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from biomed.corpora import Corpus, Gold, TaggedText
from biomed.ner.characters import ALPHABET, BITS, CODES, OTHER, add_characters, surfaces
from biomed.ner.network import EntitySettings, WordTagger
from biomed.ner.reading import WordReader
from biomed.ner.tagger import EntityTagger
from biomed.ner.training import EntityRecipe, EntityTable, fit
from domainbert.errors import UserError
from domainbert.training.settings import TrainingSettings

QUICK = TrainingSettings(
    epochs=10, learning_rate=6e-3, batch_tokens=96, dropout=0.0, evaluations=1, patience=9
)


def unpacked(surface):
    return [surface >> BITS * place & CODES - 1 for place in range(9)]


def test_a_surface_is_the_shape_and_the_characters():
    (whole,) = surfaces("SIGmoid", [(0, 7)])
    assert unpacked(whole)[1:] == [*(ALPHABET[c] for c in "SIGmoid"), 0]
    first, second = surfaces("pseudohypo€1", [(0, 10), (10, 12)])
    assert unpacked(first)[1:] == [ALPHABET[c] for c in "pseuhypo"]
    assert unpacked(second)[1:] == [OTHER, ALPHABET["1"], *[0] * 6]
    assert max(ALPHABET.values()) < CODES
    words = ("sig", "Sig", "SIG", "siG", "sig1", "1", "β1", "sig-", "-")
    shapes = [unpacked(surfaces(word, [(0, len(word))])[0])[0] for word in words]
    assert len(set(shapes)) == len(words)
    assert unpacked(first)[0] != unpacked(second)[0] != 0


def test_the_reader_gives_a_surface_to_each_piece(tokenizer):
    words = ["HEART", "\x10", "xy"]
    pieces = WordReader(tokenizer, characters=True).read(words)
    x, y = surfaces("xy", [(0, 1), (1, 2)])
    assert pieces.surface.tolist() == [surfaces("HEART", [(0, 5)])[0], x, y]
    plain = WordReader(tokenizer).read(words)
    assert plain.ids.tolist() == pieces.ids.tolist()
    assert not plain.surface.any()


def sentences(count, *, seed):
    """ "HEART" is an entity and "heart" is none, which only characters can tell."""
    generator = np.random.default_rng(seed)
    texts = []
    for _ in range(count):
        short = generator.random(6) < 0.5
        words = [str(w) for w in generator.choice(["heart", "pain", "home", "was"], 6)]
        words = [w.upper() if s else w for w, s in zip(words, short, strict=True)]
        tags = ["B-Disease" if w in ("HEART", "PAIN") else "O" for w in words]
        texts.append(TaggedText(tuple(words), tuple(tags)))
    return Gold("made-up", tuple(texts))


@pytest.fixture(scope="module")
def corpus():
    return Corpus("made-up", sentences(120, seed=0), sentences(30, seed=1), None)


def recipe(encoder, *, characters=True, **changes):
    table = EntityTable(encoder=str(encoder), window=32, characters=characters)
    return EntityRecipe(model=table, training=QUICK.replaced(**changes))


@pytest.fixture(scope="module")
def trained(tiny_encoder, corpus):
    return fit([corpus], recipe(tiny_encoder))


def test_capitals_are_learnt(trained, tiny_encoder, corpus):
    assert trained.manifest["devel"]["made-up"]["all"]["f1"] > 0.95
    assert [e.text for e in EntityTagger(trained).tag("PAIN was heart HEART")] == ["PAIN", "HEART"]
    plain = fit([corpus], recipe(tiny_encoder, characters=False, epochs=4))
    assert plain.manifest["devel"]["made-up"]["all"]["f1"] < 0.8


def test_what_is_saved_is_what_was_measured(trained, tmp_path):
    trained.save_pretrained(tmp_path / "model")
    again = WordTagger.from_pretrained(tmp_path / "model")
    assert again.fingerprint() == trained.fingerprint()
    texts = ["HEART and heart", "PAIN home WAS pain " * 40]
    found = [list(EntityTagger(model).tag_many(texts)) for model in (trained, again)]
    assert found[0] == found[1]
    again.settings = EntitySettings(window=32)
    assert again.fingerprint() != trained.fingerprint()
    with pytest.raises(UserError, match="saved as an adapter, not with all weights"):
        trained.save_pretrained(tmp_path / "whole", merged=True)


def test_with_another_model_each_reads_its_own(trained, drug):
    found = EntityTagger(trained, drug).tag("insulin for PAIN not pain")
    assert [(e.text, e.label) for e in found] == [("insulin", "Drug"), ("PAIN", "Disease")]


def test_training_starts_from_it(trained, tiny_encoder, tmp_path, corpus):
    trained.save_pretrained(tmp_path / "begun")
    plan = recipe(tiny_encoder, epochs=1.0, learning_rate=1e-6)
    start = plan.replaced(model=plan.model.replaced(start=[str(tmp_path / "begun")]))
    assert fit([corpus], start).manifest["devel"]["made-up"]["all"]["f1"] > 0.95
    plain = start.replaced(model=start.model.replaced(characters=False))
    with pytest.raises(UserError, match="a model with characters starts another one with them"):
        fit([corpus], plain)


def test_characters_start_beside_an_adapter_without_them(tiny_encoder, tmp_path, corpus):
    fit([corpus], recipe(tiny_encoder, characters=False, epochs=1.0)).save_pretrained(
        tmp_path / "begun"
    )
    plan = recipe(tiny_encoder)
    start = plan.replaced(model=plan.model.replaced(start=[str(tmp_path / "begun")]))
    assert fit([corpus], start).manifest["devel"]["made-up"]["all"]["f1"] > 0.95


def test_untrained_characters_change_nothing_and_cost_little(new_random, tokenizer):
    from transformers import BertConfig, BertForTokenClassification

    config = BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    network = BertForTokenClassification(config).eval()
    ids = torch.randint(1000, 20_000, (2, 64))
    surface = torch.randint(0, 1 << 62, (2, 64))
    with torch.inference_mode():
        with FlopCounterMode(display=False) as before:
            plain = network(input_ids=ids).logits
        with FlopCounterMode(display=False) as after:
            found = add_characters(network).eval()(input_ids=ids, token_type_ids=surface).logits
    torch.testing.assert_close(found, plain)
    assert after.get_total_flops() < 1.1 * before.get_total_flops()


def test_other_families_and_full_weights_are_refused(tiny_encoder, corpus):
    from transformers import DistilBertConfig, DistilBertForTokenClassification

    config = DistilBertConfig(vocab_size=9, dim=8, n_heads=2, n_layers=1, hidden_dim=8)
    with pytest.raises(UserError, match="expected an encoder of the BERT family, got distilbert"):
        add_characters(DistilBertForTokenClassification(config))
    with pytest.raises(UserError, match="expected full = false"):
        fit([corpus], recipe(tiny_encoder, full=True))
