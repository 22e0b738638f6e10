-- What has been due for less than $11 is left alone. Of what is due first, $13 are looked at: there may be
-- very many of other slots. NULL is no bound. State and filed are compared again when a row is locked:
-- somebody may have leased the task meanwhile. A ctid is not compared again by PostgreSQL 15.13, and is by 15.18.
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
    SELECT k.filed
    FROM {first waiting} k
    WHERE {mine}
    ORDER BY k.filed, k.id
    OFFSET $6::bigint - 1 LIMIT 1
),
outlived AS MATERIALIZED (
    SELECT t.ctid AS place, t.state, t.filed, t.id, t.version, t.attempts, t.node, coalesce(octet_length(t.payload), 0) AS size
    FROM {first running} k JOIN {s}.hw_tasks t ON t.ctid = k.place AND t.state = 2 AND t.filed = k.filed
    WHERE {mine} AND coalesce(k.filed <= (SELECT filed FROM last), true)
    ORDER BY k.filed, k.id
    LIMIT $6::bigint
    FOR UPDATE OF t SKIP LOCKED
),
-- The index has some under an earlier time than theirs, since they were moved: they are filed again.
-- Where there are many, more than can be leased are looked at.
fresh AS MATERIALIZED (
    SELECT t.ctid AS place, t.state, t.filed, t.id, t.version, t.attempts, t.node, coalesce(octet_length(t.payload), 0) AS size,
        t.moved AND t.due > (SELECT now FROM clock) - $11 AS early
    FROM {first waiting} k JOIN {s}.hw_tasks t ON t.ctid = k.place AND t.state = 1 AND t.filed = k.filed
    WHERE {mine}
    ORDER BY k.filed, k.id
    LIMIT $12::bigint - (SELECT count(*) FROM outlived)
    FOR UPDATE OF t SKIP LOCKED
),
-- Large payloads end it early, after one more than there is room for.
picked AS MATERIALIZED (
    SELECT * FROM (
        SELECT k.*, sum(k.size) OVER earlier - k.size AS before, count(*) FILTER (WHERE NOT k.early) OVER earlier AS leased
        FROM (SELECT *, false AS early FROM outlived UNION ALL SELECT * FROM fresh) k
        WINDOW earlier AS (ORDER BY k.filed, k.id ROWS UNBOUNDED PRECEDING)
    ) k
    WHERE k.before <= $10::bigint AND k.leased <= $6
),
{give}
RETURNING t.lease, k.state = 2, {task}
