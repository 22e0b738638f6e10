WITH {clock},
p AS MATERIALIZED (
    SELECT p.no, p.attempts
    FROM {s}.hw_topics p, clock
    WHERE p.no = $1 AND NOT p.paused AND NOT EXISTS (
        SELECT FROM {s}.hw_fences f
        WHERE f.topic = $1 AND f.slot = ANY ($7::smallint[]) AND f.term > $8::bigint AND f.at > clock.now - $9::bigint)
),
-- The last that could be leased if nothing was outlived: what was outlived later has to wait. It
-- is looked for where something was.
last AS MATERIALIZED (
    SELECT t.at
    FROM {s}.hw_tasks t
    WHERE t.topic = (SELECT no FROM p) AND t.state = 1 AND t.at <= (SELECT now FROM clock)
        AND ($2::smallint[] IS NULL OR (t.slot & $3::smallint) = ANY ($2))
    ORDER BY t.at, t.id
    OFFSET $4::bigint - 1 LIMIT 1
),
outlived AS MATERIALIZED (
    SELECT t.ctid AS place, t.state, t.at, t.id, t.version, t.attempts, t.node, coalesce(octet_length(t.payload), 0) AS size
    FROM {s}.hw_tasks t
    WHERE t.topic = (SELECT no FROM p) AND t.state = 2 AND t.at <= (SELECT now FROM clock)
        AND ($2::smallint[] IS NULL OR (t.slot & $3::smallint) = ANY ($2))
        AND coalesce(t.at <= (SELECT at FROM last), true)
    ORDER BY t.at, t.id
    LIMIT $4::bigint
    FOR UPDATE SKIP LOCKED
),
fresh AS MATERIALIZED (
    SELECT t.ctid AS place, t.state, t.at, t.id, t.version, t.attempts, t.node, coalesce(octet_length(t.payload), 0) AS size
    FROM {s}.hw_tasks t
    WHERE t.topic = (SELECT no FROM p) AND t.state = 1 AND t.at <= (SELECT now FROM clock)
        AND ($2 IS NULL OR (t.slot & $3) = ANY ($2))
    ORDER BY t.at, t.id
    LIMIT $4 - (SELECT count(*) FROM outlived)
    FOR UPDATE SKIP LOCKED
),
-- Large payloads end it early, after one more than there is room for.
picked AS MATERIALIZED (
    SELECT * FROM (
        SELECT k.*, sum(k.size) OVER (ORDER BY k.at, k.id ROWS UNBOUNDED PRECEDING) - k.size AS before
        FROM (SELECT * FROM outlived UNION ALL SELECT * FROM fresh) k
    ) k
    WHERE k.before <= $10::bigint
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
    at = CASE WHEN t.state = 2 AND t.attempts >= p.attempts THEN clock.now ELSE clock.now + $5::bigint END,
    span = $5,
    node = CASE WHEN t.state = 2 AND t.attempts >= p.attempts THEN t.node ELSE $6::text END,
    error = CASE WHEN t.state = 2 THEN 'timeout: the lease of ' || t.node || ' ended in attempt ' || t.attempts ELSE t.error END,
    attempts = t.attempts + CASE WHEN t.state = 2 AND t.attempts >= p.attempts THEN 0 ELSE 1 END
FROM picked k, p, clock
WHERE t.ctid = k.place
RETURNING t.lease, k.state = 2, {task}
