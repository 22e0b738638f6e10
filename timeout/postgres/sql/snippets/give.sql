-- What is early was moved and is not due yet: it is filed again. A row that somebody has changed since the
-- statement began stands elsewhere now: it is neither found there nor logged.
logged AS (
    INSERT INTO {s}.hw_executions (at, version, started, took, topic, attempt, outcome, id, node, error)
    SELECT clock.now, o.version, 0, 0, p.no, o.attempts, 1, o.id, o.node, 'timeout: the lease of ' || o.node || ' ended in attempt ' || o.attempts
    FROM picked o, p, clock
    WHERE o.state = 2 AND EXISTS (SELECT FROM {s}.hw_tasks t WHERE t.ctid = o.place AND t.state = 2)
)
UPDATE {s}.hw_tasks t SET
    state = CASE WHEN k.early THEN 1 ELSE 2 END,
    lease = CASE WHEN k.early THEN 0 ELSE (SELECT nextval('{s}.hw_number')) END,
    filed = CASE WHEN k.early THEN t.due ELSE clock.now + $4::bigint END,
    moved = false,
    span = $4,
    node = CASE WHEN k.early THEN t.node ELSE $5::text END,
    error = CASE WHEN t.state = 2 THEN 'timeout: the lease of ' || t.node || ' ended in attempt ' || t.attempts ELSE t.error END,
    attempts = t.attempts + CASE WHEN k.early THEN 0 ELSE 1 END
FROM picked k, clock
WHERE t.ctid = k.place
