"""Scoring: what a task does to one row, turned into tables in, tables out."""

from domainbert.scoring.driver import Counts, score_file, score_frame
from domainbert.scoring.task import Fault, Task

__all__ = ["Counts", "Fault", "Task", "score_file", "score_frame"]
