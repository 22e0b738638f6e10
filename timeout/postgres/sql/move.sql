-- A move to a later time leaves the task where the index has it.
WITH {clock}
UPDATE {s}.hw_tasks t SET filed = least(t.filed, k.at), moved = k.at > t.filed, due = k.at, version = nextval('{s}.hw_number')
FROM (
    SELECT k.*, CASE WHEN k.due >= 0 THEN k.due ELSE {in k.after} END AS at, clock.now
    FROM unnest($1::integer[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[]) WITH ORDINALITY AS k (topic, id, due, after, version, n), clock
) k
WHERE t.topic = k.topic AND t.id = k.id AND t.state + 0 = 1 AND k.version IN (0, t.version) AND {known} AND {announce}
RETURNING k.n, t.state, t.version, t.due
