import pytest

from domainbert.encoders import check_casing, find_encoder, load_tokenizer
from domainbert.pretraining.vocabulary import SPECIAL, train_vocabulary

SENTENCES = ["The patient denies chest pain.", "Heart failure, NYHA III; EF 30%."] * 20


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def learnt(request):
    return train_vocabulary(SENTENCES, size=120, lower_case=request.param), request.param


def test_every_word_of_the_corpus_comes_back(learnt):
    tokenizer, lower_case = learnt
    for sentence in SENTENCES[:2]:
        ids = tokenizer(sentence)["input_ids"]
        assert tokenizer.unk_token_id not in ids
        text = tokenizer.decode(ids, skip_special_tokens=True).replace(" ", "")
        wanted = sentence.lower() if lower_case else sentence
        assert text == wanted.replace(" ", "")


def test_it_survives_the_disk(learnt, tmp_path, new_network):
    tokenizer, lower_case = learnt
    tokenizer.save_pretrained(tmp_path)
    new_network().bert.save_pretrained(tmp_path)
    again = load_tokenizer(find_encoder(tmp_path))
    check_casing(again, name="learnt")
    assert again.do_lower_case == lower_case
    assert again.get_vocab() == tokenizer.get_vocab()
    for text in (*SENTENCES[:2], "Unseen words, éà ✓ [MASK]"):
        assert again(text)["input_ids"] == tokenizer(text)["input_ids"]


def test_the_same_text_gives_the_same_pieces(learnt):
    tokenizer, lower_case = learnt
    again = train_vocabulary(list(SENTENCES), size=120, lower_case=lower_case)
    assert again.get_vocab() == tokenizer.get_vocab()
    assert tokenizer.convert_ids_to_tokens(range(5)) == list(SPECIAL)
    assert tokenizer.pad_token_id == 0
    assert len(tokenizer) <= 120


def test_no_text_no_vocabulary():
    with pytest.raises(ValueError, match=r"^there is no text to learn a vocabulary from$"):
        train_vocabulary([], size=100, lower_case=True)
    with pytest.raises(TypeError, match=r"^the sentences are read twice, and an iterator can be"):
        train_vocabulary(iter(SENTENCES), size=100, lower_case=True)
