"""BioBERT: biomedical text -> entities, answers, embeddings. Nothing is here yet."""
