SELECT {task}
FROM {s}.hw_tasks t
WHERE t.topic = $1 AND t.state = $2 AND (t.at, t.id) > ($3, $4)
ORDER BY t.at, t.id
LIMIT $5
