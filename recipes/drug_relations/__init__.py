"""Relations between drugs and diseases, measured and not shipped."""
