-- `docs.first` numbers a document's first chunk, and `chunks` counts them; numbers are never used again.
-- `lengths` holds a uint16 for each chunk: its terms. `vectors` are those of its chunks, float32; NULL
-- if they are not made yet.
CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE docs (
    id INTEGER PRIMARY KEY, doc_id TEXT UNIQUE, path TEXT UNIQUE, title TEXT, digest TEXT,
    signature TEXT, created REAL, updated REAL, language TEXT, first INTEGER UNIQUE, chunks INTEGER,
    lengths BLOB, lead INTEGER, vectors BLOB
);
CREATE INDEX titles ON docs (title);
CREATE TABLE texts (first INTEGER PRIMARY KEY, data BLOB);
-- Postings are explained in postings.py.
CREATE TABLE terms (id INTEGER PRIMARY KEY, term TEXT UNIQUE);
CREATE TABLE postings (id INTEGER PRIMARY KEY, data BLOB);
