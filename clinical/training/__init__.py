"""Train and recalibrate readmission models."""
