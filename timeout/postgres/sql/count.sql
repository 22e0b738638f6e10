-- The row of no state says that the topic is there. How many there are is in the index alone; whether
-- one is due is looked up for those only that the index has as due.
WITH {clock},
due AS MATERIALIZED (
    SELECT count(*) AS n, coalesce((SELECT now FROM clock) - min({time}), 0) AS lag
    FROM {s}.hw_tasks t
    WHERE t.topic = (SELECT no FROM {s}.hw_topics WHERE name = $1) AND t.state = 1 AND t.filed <= (SELECT now FROM clock) AND {time} <= (SELECT now FROM clock)
)
SELECT 0::smallint, 0::bigint, 0::bigint, 0::bigint FROM {s}.hw_topics WHERE name = $1
UNION ALL
(SELECT t.state, count(*), due.n, due.lag
FROM {s}.hw_tasks t, due
WHERE t.topic = (SELECT no FROM {s}.hw_topics WHERE name = $1)
GROUP BY t.state, due.n, due.lag)
