"""Writes the small inputs of `commands.txt` into the folder where it is run."""

import json
import sqlite3
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

from domainbert.encoders.classifier import CLSClassifier
from domainbert.encoders.loading import find_encoder, load_tokenizer

DISEASES = ["fever", "anemia", "asthma", "sepsis", "stroke", "gout", "ulcer"]
SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
RELEASED = [  # the settings in the release's configuration
    "attention_probs_dropout_prob", "hidden_act", "hidden_dropout_prob", "hidden_size",
    "initializer_range", "intermediate_size", "max_position_embeddings", "num_attention_heads",
    "num_hidden_layers", "type_vocab_size", "vocab_size",
]  # fmt: skip
PASSAGE = (
    "Metformin was stopped because the patient developed lactic acidosis."
)
NOTES = """note_id,patient_id,text
1,a,"Discharge summary. Metformin 500 mg twice daily for type 2 diabetes. He lives alone."
2,b,"Discharge summary. Admitted with heart failure; furosemide was stopped."
"""


SPACY_JOB = """
import spacy

nlp = spacy.blank("en")
nlp.add_pipe("biomed")
assert nlp("She had fever.").ents
"""
TASK = """
import pandas as pd
from clinical import ReadmissionModel
from clinical.risk.task import ReadmissionTask
from domainbert.scoring import engines

task = ReadmissionTask(ReadmissionModel.from_pretrained("readmission-demo"))
notes = pd.read_csv("notes.csv").assign(category="Discharge summary")
"""
RAY_JOB = f"""{TASK}
import ray

rows = engines.score_ray(ray.data.from_pandas(notes), task, workers=1, threads=1)
assert len(rows.take_all()) == 2
"""
SPARK_JOB = f"""{TASK}
from pyspark.sql import SparkSession

frame = SparkSession.builder.master("local[1]").getOrCreate().createDataFrame(notes)
assert len(engines.score_spark(frame, task, partitions=1, threads=1).collect()) == 2
"""


def write_lines(name, lines):
    Path(name).write_text("\n".join(lines) + "\n", "utf-8")


def write_models():
    """An encoder with random weights, and one in the form of the release of 2019."""
    tokenizer = load_tokenizer(find_encoder())
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(tokenizer), **SHAPE)
    BertModel(config).save_pretrained("encoder")
    tokenizer.save_pretrained("encoder")
    release = Path("release")
    release.mkdir()
    config.num_labels = 1
    weights = CLSClassifier(config).state_dict()
    torch.save(weights, release / "pytorch_model.bin")
    (release / "bert_config.json").write_text(
        json.dumps({name: getattr(config, name) for name in RELEASED})
    )
    vocabulary = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    write_lines("release/vocab.txt", vocabulary)


def write_tables():
    sentences = [f"She had {name}." for name in DISEASES]
    write_lines("sentences.txt", sentences)
    write_lines("texts.csv", ["text", *sentences])
    notes = [f"Admitted with fever {n}. She lives alone." for n in range(40)]
    write_lines("history.csv", ["text", *notes])
    write_lines("history.toml", ["[corpus]", "held_out = 0.3"])
    terms = [f"{name},disease" for name in DISEASES]
    write_lines("terms.csv", ["term,category", *terms])
    names = [
        f"D{number},{name},{name} disease"
        for number, name in enumerate(DISEASES)
    ]
    write_lines("names.csv", ["id,name,synonyms", *names])
    synonyms = [f"{name},{name} disease" for name in DISEASES]
    write_lines("synonyms.csv", ["term,synonyms", *synonyms])
    pairs = [
        f"{first},{second},{int(first == second)}"
        for first in DISEASES
        for second in DISEASES
    ]
    write_lines("pairs.csv", ["first,second,score", *pairs])
    others = [f"acute {pair}" for pair in pairs]
    write_lines("validation.csv", ["first,second,score", *others])
    ratings = [pair.replace(",0", ",1.5") for pair in pairs]
    write_lines("ratings.csv", ["first,second,rating", *ratings])
    Path("corpus").mkdir()
    for side, subject in (("train", "She"), ("devel", "He")):
        tagged = [
            f"{subject}\tO\nhad\tO\n{name}\tB-Disease\n.\tO\n"
            for name in DISEASES
        ]
        write_lines(f"corpus/{side}.tsv", tagged)


def write_questions():
    articles = []
    for number in range(40):  # a fifth is held out
        context = f"On day {number}, {PASSAGE}"
        answer = {
            "text": "lactic acidosis",
            "answer_start": context.index("lactic"),
        }
        question = {
            "id": str(number),
            "question": f"Why was metformin stopped on day {number}?",
            "answers": [answer],
        }
        paragraph = {"context": context, "qas": [question]}
        articles.append({"title": str(number), "paragraphs": [paragraph]})
    document = {"version": "1", "data": articles}
    Path("questions.json").write_text(json.dumps(document))


def write_database():
    with sqlite3.connect("notes.db") as database:
        database.execute("CREATE TABLE notes (note_id, text)")
        rows = [(1, PASSAGE), (2, "Admitted with heart failure.")]
        database.executemany("INSERT INTO notes VALUES (?, ?)", rows)


for name, job in (
    ("spacy", SPACY_JOB),
    ("ray", RAY_JOB),
    ("spark", SPARK_JOB),
):
    Path(f"{name}_job.py").write_text(job)
write_models()
Path("notes.csv").write_text(NOTES)
write_tables()
write_questions()
write_database()
