WITH {clock}
SELECT t.state, count(*), count(*) FILTER (WHERE t.at <= clock.down), coalesce(clock.down - min(t.at), 0)
FROM {s}.hw_tasks t, clock
WHERE t.topic = $1
GROUP BY t.state, clock.down
