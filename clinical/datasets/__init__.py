"""Example data: real diabetes encounters, and a made-up hospital."""
