"""The committee's report: figures, tables, sentences and documents."""
