WITH {clock}
UPDATE {s}.hw_tasks t SET was = t.state, state = 5, filed = clock.now, moved = false, lease = 0
FROM unnest($1::integer[], $2::text[], $3::bigint[], $4::smallint[], $5::bigint[]) AS k (topic, id, n, state, version), clock
WHERE t.topic = k.topic AND t.id = k.id AND t.state + 0 IN (1, 2, 4)
    AND k.state IN (0, t.state) AND k.version IN (0, t.version) AND {known}
RETURNING k.n, t.was, 0::bigint, 0::bigint
