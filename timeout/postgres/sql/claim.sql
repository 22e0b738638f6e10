-- Like lease.sql, for the tasks that are named: what somebody else has locked is not claimed.
WITH {clock},
p AS MATERIALIZED (SELECT p.no, p.attempts FROM {s}.hw_topics p WHERE p.no = $1 AND NOT p.paused),
wanted AS MATERIALIZED (
    SELECT p.no AS topic, k.* FROM p, unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS k (id, version, n)
),
named AS MATERIALIZED (
    SELECT t.ctid AS place, k.n, t.state, t.id, t.version, t.attempts, t.node, coalesce(octet_length(t.payload), 0) AS size
    FROM wanted k JOIN {s}.hw_tasks t ON t.topic = k.topic AND t.id = k.id AND t.version = k.version
    WHERE t.state + 0 IN (1, 2) AND t.at + 0 <= (SELECT now FROM clock)
    FOR UPDATE OF t SKIP LOCKED
),
picked AS MATERIALIZED (
    SELECT * FROM (SELECT k.*, sum(k.size) OVER (ORDER BY k.n ROWS UNBOUNDED PRECEDING) - k.size AS before FROM named k) k
    WHERE k.before <= $6::bigint
),
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
RETURNING k.n, t.lease, k.state = 2, {task}
