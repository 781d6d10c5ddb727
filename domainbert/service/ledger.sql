-- The ledger of a service: numbers, times and keyed hashes of ids; no text, no id.

PRAGMA journal_mode = WAL;  -- several workers write

-- One row per risk. `model` is a fingerprint, `row` is the same for all models that scored it, `card` the UUID of the card or '', `subject` a hash of
-- the stay, `alert` 1 where the risk reached the model's threshold.
CREATE TABLE IF NOT EXISTS served (
    time TEXT,
    task TEXT,
    model TEXT,
    row TEXT,
    card TEXT,
    subject TEXT,
    status TEXT,
    probability REAL,
    alert INTEGER
);

-- What became of a card: 'accepted' or 'overridden', and the code of the reason or ''.
CREATE TABLE IF NOT EXISTS feedback (time TEXT, task TEXT, card TEXT, outcome TEXT, reason TEXT);

-- Tokens that were used, until they expire.
CREATE TABLE IF NOT EXISTS tokens (hash BLOB PRIMARY KEY, until REAL) WITHOUT ROWID;
