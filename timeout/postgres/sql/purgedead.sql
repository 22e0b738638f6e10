-- What is dead beyond the number that is kept, the oldest first.
WITH gone AS (
    DELETE FROM {s}.hw_tasks t
    WHERE t.state = 4 AND t.ctid = ANY (ARRAY(
        SELECT o.place
        FROM unnest($1::integer[], $2::bigint[]) AS k (topic, most), LATERAL (
            SELECT t.filed, t.id
            FROM {s}.hw_tasks t
            WHERE t.topic = k.topic AND t.state = 4
            ORDER BY t.filed DESC, t.id DESC
            OFFSET k.most LIMIT 1
        ) last, LATERAL (
            SELECT t.ctid AS place
            FROM {s}.hw_tasks t
            WHERE t.topic = k.topic AND t.state = 4 AND (t.filed, t.id) <= (last.filed, last.id)
            ORDER BY t.filed, t.id
            LIMIT $3
            FOR UPDATE SKIP LOCKED
        ) o
        LIMIT $3))
    RETURNING t.topic, t.id
),
{forget}
SELECT topic, true, count(*) FROM gone GROUP BY topic
