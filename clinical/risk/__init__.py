"""Notes -> windows -> the risk of readmission within 30 days."""
