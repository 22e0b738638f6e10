WITH gone AS (DELETE FROM {s}.hw_topics WHERE name = $1 RETURNING no)
INSERT INTO {s}.hw_dropped (no, at) SELECT no, {now} FROM gone
