"""Which passages drive a risk."""
