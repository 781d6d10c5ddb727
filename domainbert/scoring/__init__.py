"""Scoring: apply a task to every row of a table and write a table of results."""

from domainbert.scoring.driver import Counts, score_file, score_frame
from domainbert.scoring.task import Fault, OutputRow, Task, TextTask, text_of

__all__ = [
    "Counts",
    "Fault",
    "OutputRow",
    "Task",
    "TextTask",
    "score_file",
    "score_frame",
    "text_of",
]
