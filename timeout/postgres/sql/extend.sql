WITH {clock}
UPDATE {s}.hw_tasks t SET filed = clock.now + $4::bigint, span = $4
FROM unnest($1::integer[], $2::text[], $3::bigint[]) WITH ORDINALITY AS k (topic, id, lease, n), clock
WHERE t.topic = k.topic AND t.id = k.id AND t.lease = k.lease AND t.state + 0 = 2 AND {known}
RETURNING k.n
