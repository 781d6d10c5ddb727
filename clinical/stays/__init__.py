"""A stay and its notes, and the patients behind them."""
