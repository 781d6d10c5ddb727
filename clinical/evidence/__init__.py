"""Which passages drive a risk, and how faithful that is."""
