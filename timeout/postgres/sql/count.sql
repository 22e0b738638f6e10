-- The row of no state says that the topic is there.
WITH {clock}
SELECT 0::smallint, 0::bigint, 0::bigint, 0::bigint FROM {s}.hw_topics WHERE no = $1
UNION ALL
(SELECT t.state, count(*), count(*) FILTER (WHERE t.at <= clock.now), coalesce(clock.now - min(t.at), 0)
FROM {s}.hw_tasks t, clock
WHERE t.topic = $1
GROUP BY t.state, clock.now)
