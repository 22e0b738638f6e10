-- Like lease.sql, for the tasks that are named: what somebody else has locked is not claimed.
WITH {clock},
p AS MATERIALIZED (SELECT p.no FROM {s}.hw_topics p WHERE p.no = $1 AND NOT {paused}),
wanted AS MATERIALIZED (
    SELECT p.no AS topic, k.* FROM p, unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS k (id, version, n)
),
named AS MATERIALIZED (
    SELECT t.ctid AS place, k.n, t.state, t.id, t.version, t.attempts, t.node, coalesce(octet_length(t.payload), 0) AS size,
        t.moved AND t.due > (SELECT now FROM clock) AS early
    FROM wanted k JOIN {s}.hw_tasks t ON t.topic = k.topic AND t.id = k.id AND t.version = k.version
    WHERE t.state + 0 IN (1, 2) AND t.filed + 0 <= (SELECT now FROM clock)
    FOR UPDATE OF t SKIP LOCKED
),
picked AS MATERIALIZED (
    SELECT * FROM (SELECT k.*, sum(k.size) OVER (ORDER BY k.n ROWS UNBOUNDED PRECEDING) - k.size AS before FROM named k) k
    WHERE k.before <= $6::bigint
),
{give}
RETURNING k.n, t.lease, k.state = 2, {task}
