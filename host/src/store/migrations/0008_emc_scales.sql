-- What turns the activity monitor of a Jetson's memory controller into a share of the time, learned on the
-- board, by the vendor's release and the kernel.
CREATE TABLE emc_scales (
    board        TEXT NOT NULL,
    release      TEXT NOT NULL,
    scale        DOUBLE PRECISION NOT NULL,
    r2           DOUBLE PRECISION NOT NULL,
    bytes_r2     DOUBLE PRECISION,
    repeats      BIGINT NOT NULL,
    run_id       TEXT NOT NULL,
    made_unix_ns BIGINT NOT NULL,
    PRIMARY KEY (board, release)
);
