-- Where a run came from that was not measured into this store: a bundle, or another store.
-- sha256 is that of the bundle; left_out is what it did not bring, as JSON.
CREATE TABLE imports (
    run_id           TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    source           TEXT NOT NULL,
    store            TEXT NOT NULL,
    sha256           TEXT,
    left_out         TEXT NOT NULL,
    tool_version     TEXT NOT NULL,
    imported_unix_ns BIGINT NOT NULL,
    PRIMARY KEY (run_id)
);
