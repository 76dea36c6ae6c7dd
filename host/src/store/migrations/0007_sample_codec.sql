-- Telemetry coded as trials are. 0: the three columns as before. 1: at_ns holds time and value, coded as a chunk
-- of two columns with codec 1 (each the difference to the one above), value is empty, and quality is empty where
-- every sample is good.
ALTER TABLE samples ADD COLUMN codec BIGINT NOT NULL DEFAULT 0;
