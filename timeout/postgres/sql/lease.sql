-- Leases at most $6 of what is due, and looks at $3. What has been due for less than $2 is left alone.
-- State and filed are compared again when a row is locked: somebody may have leased the task meanwhile.
WITH {clock},
{front $8},
p AS MATERIALIZED (
    SELECT p.no
    FROM {s}.hw_topics p
    WHERE p.no = $1 AND NOT {paused}
),
-- The last that could be leased if no lease had expired: what expires later has to wait. It
-- is looked for where something was.
last AS MATERIALIZED (
    SELECT t.filed
    FROM {due waiting}
    ORDER BY t.filed, t.id
    OFFSET $6::bigint - 1 LIMIT 1
),
expired AS MATERIALIZED (
    SELECT t.ctid AS place, t.state, t.filed, t.id, t.version, t.attempts, t.node, coalesce(octet_length(t.payload), 0) AS size
    FROM {due running} AND coalesce(t.filed <= (SELECT filed FROM last), true)
    ORDER BY t.filed, t.id
    LIMIT $6::bigint
    FOR UPDATE OF t SKIP LOCKED
),
-- The index has some under an earlier time than theirs, since they were moved: they are filed again.
-- Where there are many, more than can be leased are looked at.
fresh AS MATERIALIZED (
    SELECT t.ctid AS place, t.state, t.filed, t.id, t.version, t.attempts, t.node, coalesce(octet_length(t.payload), 0) AS size,
        t.moved AND t.due > (SELECT now FROM clock) - $2::bigint AS early
    FROM {due waiting}
    ORDER BY t.filed, t.id
    LIMIT $3::bigint - (SELECT count(*) FROM expired)
    FOR UPDATE OF t SKIP LOCKED
),
-- Large payloads end it early, after one more than there is room for.
picked AS MATERIALIZED (
    SELECT * FROM (
        SELECT k.*, sum(k.size) OVER earlier - k.size AS before, count(*) FILTER (WHERE NOT k.early) OVER earlier AS leased
        FROM (SELECT *, false AS early FROM expired UNION ALL SELECT * FROM fresh) k
        WINDOW earlier AS (ORDER BY k.filed, k.id ROWS UNBOUNDED PRECEDING)
    ) k
    WHERE k.before <= $7::bigint AND k.leased <= $6
),
{give}
RETURNING 0::bigint, t.lease, k.state = 2, {task}
