"""Models that users hold: loaded from a folder, saved to one."""
