"""Made-up studies of two or three groups, with questions that name one of the groups."""
