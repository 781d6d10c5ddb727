"""How the shipped models are built: settings, and the data that they are trained on."""
