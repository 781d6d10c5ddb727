"""What a note says around a mention: its section, its assertion, and a drug's medication line."""
