-- All lock rows in the same order.
SELECT k.n, t.state, t.version, t.due
FROM unnest($1::integer[], $2::text[]) WITH ORDINALITY AS k (topic, id, n)
JOIN {s}.hw_tasks t ON t.topic = k.topic AND t.id = k.id
WHERE {known}
ORDER BY t.topic, t.id
FOR UPDATE OF t
