"""A canary goes through every public call with logging at DEBUG and errors forced."""

import contextlib
import logging
import warnings

import pandas as pd
import pytest
from typer.testing import CliRunner

import biomed.ner.commands
from biomed.corpora import (
    CorpusError,
    Document,
    Gold,
    Span,
    TaggedText,
    read_gold,
)
from biomed.corpora.documents import tagged
from biomed.ner.evaluation import (
    check_types,
    evaluate_documents,
    evaluate_words,
)
from biomed.ner.tagger import EntityTagger
from biomed.ner.task import TagTask
from domainbert.scoring import score_file
from domainbert.tables import write_table

CANARY = "zebrafinch"
TEXT = f"Patient {CANARY} with heart failure. " * 8


def test_nothing_says_what_it_read(tagger, disease, tmp_path, caplog, capsys):
    said: list[str] = []

    def attempt(call, *args, **kwargs):
        try:
            result = call(*args, **kwargs)
            if hasattr(result, "__next__"):
                result = list(result)
            if not isinstance(result, pd.DataFrame | list):
                said.append(repr(result))
        except Exception as error:
            while error is not None:
                said.append(f"{error!r} {error}")
                error = error.__cause__ or error.__context__

    files = {
        "a.iob": f"{CANARY}\tO\n{CANARY}\n",
        "b.iob": f"x\t{CANARY}\n",
        "c.txt": f"1|t|{CANARY}\n1\t0\t3\t{CANARY}\tDisease\tD1\n",
        "d.txt": f"1|t|x\n{CANARY}\n",
        "e.csv": f"note\n{CANARY}\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    write_table(pd.DataFrame({"text": [TEXT, None]}), tmp_path / "g.csv")
    document = Document(
        "1", TEXT, (Span(8, 18, "Disease"), Span(9, 12, "Disease"))
    )
    gold = Gold("g", (TaggedText((CANARY,), ("B-Bird",)),), (document,))
    with (
        warnings.catch_warnings(record=True) as caught,
        caplog.at_level(logging.DEBUG),
    ):
        warnings.simplefilter("always")
        for text in (TEXT, [TEXT], TEXT.encode(), {"text": TEXT}, None):
            attempt(tagger.tag, text)
            attempt(
                tagger.score_frame,
                pd.DataFrame({"text": [TEXT, text]}, dtype=object),
            )
        attempt(
            tagger.score_frame,
            pd.DataFrame({CANARY + " was here and there": [TEXT]}),
        )
        attempt(
            list,
            disease.entities(
                map(disease.word_tokenizer.tokenize, [[CANARY], TEXT])
            ),
        )
        attempt(EntityTagger.from_pretrained, "nowhere")
        for name in files:
            attempt(read_gold, tmp_path / name)
            attempt(
                score_file,
                TagTask(tagger),
                tmp_path / name,
                tmp_path / "o.csv",
            )
            for command in (["tag"], ["evaluate"]):
                result = CliRunner().invoke(
                    biomed.ner.commands.app,
                    [*command, str(tmp_path / name), "--model", "nowhere"],
                )
                said.append(result.output)
        attempt(check_types, ["Disease"], gold)
        attempt(evaluate_words, disease, gold)
        attempt(evaluate_documents, tagger, gold)
        attempt(tagged, document)
        said += map(
            repr, (gold, document, tagger, disease, disease.word_tokenizer)
        )
    said += [str(warning.message) for warning in caught]
    said += [caplog.text, *capsys.readouterr()]
    assert not [line for line in said if CANARY in line]


def test_a_shown_text_is_the_result_itself(tagger):
    assert CANARY in str(tagger.show(TEXT))
    with contextlib.suppress(CorpusError):
        read_gold("nowhere")
    with pytest.raises(ValueError, match="not a string"):
        tagger.show(None)
