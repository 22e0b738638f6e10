DELETE FROM {s}.hw_tasks t
USING unnest($1::integer[], $2::text[], $3::bigint[]) AS k (topic, id, n)
WHERE t.topic = k.topic AND t.id = k.id AND t.state + 0 IN (1, 2, 4) AND k.topic = ANY (ARRAY(SELECT no FROM {s}.hw_topics))
RETURNING k.n, t.state, 0::bigint, 0::bigint
