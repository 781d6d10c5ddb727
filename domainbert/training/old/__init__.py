"""Trainers that wait for their tasks to move to `Objective`; this folder goes with the last one."""
