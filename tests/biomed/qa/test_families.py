"""Question answering with encoders of other families."""

import numpy as np
import torch

from biomed.qa.model import QuestionAnswerer

QUESTION = "What is the drug?"
CONTEXT = "Patient with heart failure, DM2. On (insulin) — no fever. "


def test_a_family_answers_from_texts_of_any_length(
    write_family, tmp_path, family
):
    from transformers import AutoModelForQuestionAnswering

    network, own = write_family(
        tmp_path / "model", family, AutoModelForQuestionAnswering
    )
    answerer = QuestionAnswerer.from_pretrained(
        tmp_path / "model", device="cpu"
    )
    long = CONTEXT * 12
    found = answerer.answer(QUESTION, long, threshold=float("-inf"), top_k=3)
    assert found
    for answer in found:
        assert (
            long[answer.start : answer.end]
            == answer.text
            == answer.text.strip()
            != ""
        )
    # A short pair is read as the tokenizer of the family pairs them.
    pair = answerer.pair_tokenizer.pair(QUESTION, CONTEXT[:20])
    (window,) = answerer.pair_tokenizer.windows(pair)
    encoded = own(QUESTION, CONTEXT[:20], return_tensors="pt")
    assert encoded["input_ids"][0].tolist() == window.ids.tolist()
    accepted = {"input_ids", "attention_mask"}
    if answerer.reads_segments:
        accepted.add("token_type_ids")
        assert (
            encoded["token_type_ids"][0].tolist() == window.segments.tolist()
        )
    with torch.inference_mode():
        right = network(
            **{k: v for k, v in encoded.items() if k in accepted}
        ).start_logits[0]
    types = [window.segments] if answerer.reads_segments else None
    (row,) = answerer.runner.run(
        [window.ids], token_types=types, read=lambda o, _: o.start_logits
    )
    assert np.allclose(row, right.numpy(), atol=1e-4)
