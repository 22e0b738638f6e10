WITH k AS MATERIALIZED (
    SELECT p.no AS topic, k.*
    FROM {s}.hw_topics p, unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS k (id, version, n)
    WHERE p.no = $1
)
SELECT k.n, {time}
FROM k JOIN {s}.hw_tasks t ON t.topic = k.topic AND t.id = k.id AND t.version = k.version
WHERE t.state + 0 IN (1, 2)
