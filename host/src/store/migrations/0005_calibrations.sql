-- What stressors moved at full effort, by board and by all that it depends on (a digest: fingerprint).
-- working_set 0: by the agent's own rule.
CREATE TABLE calibrations (
    board        TEXT NOT NULL,
    fingerprint  TEXT NOT NULL,
    stressor     TEXT NOT NULL,
    cpus         TEXT NOT NULL,
    working_set  BIGINT NOT NULL,
    per_second   BIGINT NOT NULL,
    spread_share DOUBLE PRECISION NOT NULL,
    repeats      BIGINT NOT NULL,
    run_id       TEXT NOT NULL,
    made_unix_ns BIGINT NOT NULL,
    PRIMARY KEY (board, fingerprint, stressor, cpus, working_set)
);
