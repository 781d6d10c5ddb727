"""Example data: a made-up hospital, in which every stay's true risk is known."""
