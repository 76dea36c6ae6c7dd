-- How the host's clock stood to the board's before and after a repeat. Stamps are of the monotonic clocks:
-- asked and heard the board's, received and answered the host's. offset_ns is what must be added to the
-- board's clock to get the host's, no further than bound_ns from the truth. drift_ppb stands beside the
-- second of two exchanges with the same host_clock. Null is not known; state says why.
CREATE TABLE clock_exchanges (
    repeat_id       BIGINT NOT NULL REFERENCES repeats (id) ON DELETE CASCADE,
    sequence        BIGINT NOT NULL,
    moment          TEXT NOT NULL,
    state           TEXT NOT NULL,
    rounds          BIGINT NOT NULL,
    asked_ns        BIGINT,
    received_ns     BIGINT,
    answered_ns     BIGINT,
    heard_ns        BIGINT,
    host_clock      TEXT,
    host_unix_ns    BIGINT,
    offset_ns       BIGINT,
    bound_ns        BIGINT,
    drift_ppb       BIGINT,
    drift_bound_ppb BIGINT,
    PRIMARY KEY (repeat_id, sequence)
);

-- The board's clocks, read one after the other within took_ns: at the start, every ten seconds, at the end.
CREATE TABLE clock_readings (
    repeat_id    BIGINT NOT NULL REFERENCES repeats (id) ON DELETE CASCADE,
    sequence     BIGINT NOT NULL,
    monotonic_ns BIGINT NOT NULL,
    boottime_ns  BIGINT,
    realtime_ns  BIGINT,
    raw_ns       BIGINT,
    took_ns      BIGINT NOT NULL,
    PRIMARY KEY (repeat_id, sequence)
);
