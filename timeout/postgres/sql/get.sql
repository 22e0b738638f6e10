SELECT k.n, {task}
FROM unnest($1::integer[], $2::text[]) WITH ORDINALITY AS k (topic, id, n)
JOIN {s}.hw_tasks t ON t.topic = k.topic AND t.id = k.id
WHERE {known}
