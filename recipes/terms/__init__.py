"""The shipped model `terms`: vectors of medical terms and sentences, from public vocabularies."""
