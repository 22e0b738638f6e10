-- As set.sql, where no such task is there yet: a third of that statement's time is for the case
-- that one is. Where one is, it fails with unique_violation.
WITH {clock}
INSERT INTO {s}.hw_tasks AS t
    (at, due, version, lease, topic, attempts, slot, state, was, id, node, error, callback, payload)
SELECT k.at, k.at, nextval('{s}.hw_number'), 0, k.topic, 0, k.slot, 1, 0, k.id, '', '', k.callback, k.payload
FROM (
    SELECT k.*, CASE WHEN k.due >= 0 THEN k.due ELSE {in k.after} END AS at
    FROM unnest($1::integer[], $2::text[], $3::smallint[], $4::bigint[], $5::bigint[], $6::boolean[], $7::text[], $8::bytea[])
        AS k (topic, id, slot, due, after, absent, callback, payload), clock
) k
WHERE k.topic = ANY (ARRAY(SELECT no FROM {s}.hw_topics))
ORDER BY k.topic, k.id COLLATE "C"
RETURNING t.topic, t.id, t.was, t.version, t.due
