WITH k AS MATERIALIZED (
    SELECT p.no AS topic, k.*
    FROM {s}.hw_topics p, unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS k (id, lease, n)
    WHERE p.no = $1
),
gone AS (
    DELETE FROM {s}.hw_tasks t
    USING k
    WHERE t.topic = k.topic AND t.id = k.id AND t.lease = k.lease AND t.state + 0 = 2
    RETURNING k.n, t.topic, t.id
),
{forget}
SELECT n FROM gone
