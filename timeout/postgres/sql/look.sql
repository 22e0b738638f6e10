-- Where the rows of a topic begin in the index, without regard to anything known before.
WITH {clock}
SELECT clock.now, coalesce(pg_sequence_last_value('{s}.hw_past'), 0),
    (SELECT t.filed FROM {s}.hw_tasks t WHERE t.topic = $1 AND t.state = 1 AND t.filed <= clock.now ORDER BY t.filed, t.id LIMIT 1),
    (SELECT t.filed FROM {s}.hw_tasks t WHERE t.topic = $1 AND t.state = 2 ORDER BY t.filed, t.id LIMIT 1)
FROM clock
