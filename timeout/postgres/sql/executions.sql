SELECT version, attempt, node, started, took, outcome, error
FROM {s}.hw_executions
WHERE topic = (SELECT no FROM {s}.hw_topics WHERE name = $1) AND id = $2
ORDER BY no DESC
LIMIT $3
