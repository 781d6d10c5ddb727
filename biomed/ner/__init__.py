"""Disease and drug entities: text of any length -> exact spans."""
