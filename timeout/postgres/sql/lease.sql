-- What has been due for less than $11 is left alone.
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
    WHERE t.topic = (SELECT no FROM p) AND t.state = 1 AND t.at <= (SELECT now FROM clock) - $11::bigint
        AND ($2::smallint[] IS NULL OR (t.slot & $3::smallint) = ANY ($2))
    ORDER BY t.at, t.id
    OFFSET $6::bigint - 1 LIMIT 1
),
outlived AS MATERIALIZED (
    SELECT t.ctid AS place, t.state, t.at, t.id, t.version, t.attempts, t.node, coalesce(octet_length(t.payload), 0) AS size
    FROM {s}.hw_tasks t
    WHERE t.topic = (SELECT no FROM p) AND t.state = 2 AND t.at <= (SELECT now FROM clock) - $11
        AND ($2::smallint[] IS NULL OR (t.slot & $3::smallint) = ANY ($2))
        AND coalesce(t.at <= (SELECT at FROM last), true)
    ORDER BY t.at, t.id
    LIMIT $6::bigint
    FOR UPDATE SKIP LOCKED
),
fresh AS MATERIALIZED (
    SELECT t.ctid AS place, t.state, t.at, t.id, t.version, t.attempts, t.node, coalesce(octet_length(t.payload), 0) AS size
    FROM {s}.hw_tasks t
    WHERE t.topic = (SELECT no FROM p) AND t.state = 1 AND t.at <= (SELECT now FROM clock) - $11
        AND ($2 IS NULL OR (t.slot & $3) = ANY ($2))
    ORDER BY t.at, t.id
    LIMIT $6 - (SELECT count(*) FROM outlived)
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
{give}
RETURNING t.lease, k.state = 2, {task}
