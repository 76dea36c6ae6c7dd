-- Findings of one case, among those of very many.
CREATE INDEX findings_by_case ON findings (run_id, case_key, number);
