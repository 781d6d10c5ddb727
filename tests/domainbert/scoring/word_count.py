"""A task from outside the packages: a text in, its number of words out."""

import time
from dataclasses import replace

import pyarrow as pa

from domainbert.scoring import Fault, Task
from domainbert.tables import STAY, TEXT, Column


class WordCount(Task):
    name = "words"
    columns = (TEXT, Column("name", "id", also=("nick",)))
    part_characters = 2500  # ten short rows

    def __init__(self, *, seconds=0.0):
        self.seconds, self.runs = seconds, 0

    @property
    def output(self):
        return pa.schema([("words", pa.int64())])

    def read(self, rows):
        text = rows[0].cells["text"]
        if text is None:
            return Fault("no text", "empty")
        return (
            text
            if isinstance(text, str)
            else Fault(f"text is {type(text).__name__}")
        )

    def run(self, items):
        for text in items:
            self.runs += 1
            time.sleep(self.seconds)
            yield Fault("unlucky") if text == "13" else len(text.split())

    def rows(self, item, result):
        return [{"words": result}]

    def facts(self):
        return {"version": 1}


class PatientWords(WordCount):
    """The same per stay: rows of one stay together, wherever they are."""

    columns = (TEXT, replace(STAY, also=("hadm_id",)))
    group = "stay_id"

    def read(self, rows):
        return " ".join(row.cells["text"] or "" for row in rows)


class WordList(WordCount):
    """Each word of a text, a row for each."""

    def run(self, items):
        yield from (text.split() for text in items)

    def rows(self, item, result):
        return [{"words": len(word)} for word in result]


class OrderedWords(PatientWords):
    """Words weighed by their place, so that another order of a stay's rows shows."""

    def run(self, items):
        for text in items:
            yield sum(
                number * len(word) for number, word in enumerate(text.split())
            )
