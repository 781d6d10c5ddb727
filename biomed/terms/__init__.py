"""Medical terms as vectors: similarity, neighbours, pictures, and how good they are."""
