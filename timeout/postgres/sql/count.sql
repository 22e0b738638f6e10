WITH {clock}
SELECT t.state, count(*), count(*) FILTER (WHERE t.at <= clock.now), coalesce(clock.now - min(t.at), 0)
FROM {s}.hw_tasks t, clock
WHERE t.topic = $1
GROUP BY t.state, clock.now
