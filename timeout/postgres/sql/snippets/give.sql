logged AS (
    INSERT INTO {s}.hw_executions (at, version, started, took, topic, attempt, outcome, id, node, error)
    SELECT clock.now, o.version, 0, 0, p.no, o.attempts, CASE WHEN o.attempts >= p.attempts THEN 4 ELSE 1 END, o.id, o.node, 'timeout: the lease of ' || o.node || ' ended in attempt ' || o.attempts
    FROM picked o, p, clock
    WHERE o.state = 2
)
UPDATE {s}.hw_tasks t SET
    state = CASE WHEN t.state = 2 AND t.attempts >= p.attempts THEN 4 ELSE 2 END,
    lease = CASE WHEN t.state = 2 AND t.attempts >= p.attempts THEN 0 ELSE (SELECT nextval('{s}.hw_number')) END,
    at = CASE WHEN t.state = 2 AND t.attempts >= p.attempts THEN clock.now ELSE clock.now + $4::bigint END,
    span = $4,
    node = CASE WHEN t.state = 2 AND t.attempts >= p.attempts THEN t.node ELSE $5::text END,
    error = CASE WHEN t.state = 2 THEN 'timeout: the lease of ' || t.node || ' ended in attempt ' || t.attempts ELSE t.error END,
    attempts = t.attempts + CASE WHEN t.state = 2 AND t.attempts >= p.attempts THEN 0 ELSE 1 END
FROM picked k, p, clock
WHERE t.ctid = k.place
