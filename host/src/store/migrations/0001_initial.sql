-- The first layout. Written in the subset that PostgreSQL shares; only BLOB would read BYTEA there.
-- Ids are given by the writer; hashes, keys and JSON are text; times are nanoseconds.

CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE runs (
    id              TEXT NOT NULL PRIMARY KEY,
    created_unix_ns BIGINT NOT NULL,
    command         TEXT NOT NULL,
    argv            TEXT NOT NULL,
    plan            TEXT NOT NULL,
    tool_version    TEXT NOT NULL,
    status          TEXT NOT NULL
);

CREATE TABLE tags (
    tag    TEXT NOT NULL,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    PRIMARY KEY (tag, run_id)
);

-- The board as it said it was; a later answer of the same run replaces an earlier one.
CREATE TABLE devices (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    board  TEXT NOT NULL,
    info   TEXT NOT NULL,
    PRIMARY KEY (run_id, board)
);

CREATE TABLE cases (
    run_id    TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    case_key  TEXT NOT NULL,
    match_key TEXT NOT NULL,
    position  BIGINT NOT NULL,
    definition TEXT NOT NULL,
    rules     TEXT NOT NULL,
    PRIMARY KEY (run_id, case_key)
);

-- One row for each attempt of each repeat. origin `host`: it never reached a worker.
CREATE TABLE repeats (
    id          BIGINT NOT NULL PRIMARY KEY,
    run_id      TEXT NOT NULL,
    case_key    TEXT NOT NULL,
    repeat      BIGINT NOT NULL,
    attempt     BIGINT NOT NULL,
    pass        TEXT NOT NULL,
    origin      TEXT NOT NULL,
    outcome     TEXT NOT NULL,
    stage       TEXT,
    failure     TEXT,
    boot        TEXT,
    segment     BIGINT,
    wire_schema TEXT,
    UNIQUE (run_id, case_key, repeat, attempt, pass),
    FOREIGN KEY (run_id, case_key) REFERENCES cases (run_id, case_key) ON DELETE CASCADE
);

-- What a repeat told beside its trials, as JSON of a stored row type named by kind.
-- kind `raw`: a record of another wire schema, kept as it came.
CREATE TABLE records (
    repeat_id BIGINT NOT NULL REFERENCES repeats (id) ON DELETE CASCADE,
    sequence  BIGINT NOT NULL,
    kind      TEXT NOT NULL,
    body      TEXT,
    raw       BLOB,
    PRIMARY KEY (repeat_id, sequence)
);

-- Trials. Bytes are those of the board; codec 0: little-endian i64, 1: delta, zigzag, LEB128.
CREATE TABLE chunks (
    repeat_id    BIGINT NOT NULL REFERENCES repeats (id) ON DELETE CASCADE,
    lane         BIGINT NOT NULL,
    number       BIGINT NOT NULL,
    row_count    BIGINT NOT NULL,
    column_count BIGINT NOT NULL,
    codec        BIGINT NOT NULL,
    bytes        BLOB NOT NULL,
    PRIMARY KEY (repeat_id, lane, number)
);

CREATE TABLE events (
    repeat_id BIGINT NOT NULL REFERENCES repeats (id) ON DELETE CASCADE,
    sequence  BIGINT NOT NULL,
    lane      BIGINT NOT NULL,
    trial     BIGINT,
    code      TEXT NOT NULL,
    text      TEXT NOT NULL,
    PRIMARY KEY (repeat_id, sequence)
);

-- Telemetry, as columns of little-endian i64 (at_ns, value) and one byte (quality).
CREATE TABLE samples (
    repeat_id BIGINT NOT NULL REFERENCES repeats (id) ON DELETE CASCADE,
    sequence  BIGINT NOT NULL,
    channel   BIGINT NOT NULL,
    row_count BIGINT NOT NULL,
    at_ns     BLOB NOT NULL,
    value     BLOB NOT NULL,
    quality   BLOB NOT NULL,
    PRIMARY KEY (repeat_id, sequence)
);

-- Findings that only their maker can know; those of the rule table are worked out when read.
CREATE TABLE findings (
    run_id   TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    number   BIGINT NOT NULL,
    case_key TEXT,
    body     TEXT NOT NULL,
    PRIMARY KEY (run_id, number)
);

-- state: `stored`, or `damaged` when the bytes were not those that the hash promised.
CREATE TABLE artifacts (
    repeat_id BIGINT NOT NULL REFERENCES repeats (id) ON DELETE CASCADE,
    number    BIGINT NOT NULL,
    name      TEXT NOT NULL,
    kind      TEXT NOT NULL,
    sha256    TEXT NOT NULL,
    bytes     BIGINT NOT NULL,
    state     TEXT NOT NULL,
    PRIMARY KEY (repeat_id, number)
);

CREATE INDEX artifacts_by_content ON artifacts (sha256);

-- Contents of artifacts, each once, in the pieces they came in.
CREATE TABLE contents (
    sha256 TEXT NOT NULL,
    part   BIGINT NOT NULL,
    bytes  BLOB NOT NULL,
    PRIMARY KEY (sha256, part)
);
