-- When the first tasks of topics are due, in any slot. What was moved is due later than the index has it.
WITH {clock}
SELECT p.name, greatest({until}, least(
        (SELECT t.filed FROM {s}.hw_tasks t WHERE t.topic = p.no AND t.state = 1 ORDER BY t.filed, t.id LIMIT 1),
        (SELECT t.filed FROM {s}.hw_tasks t WHERE t.topic = p.no AND t.state = 2 ORDER BY t.filed, t.id LIMIT 1)
    )) - clock.now
FROM {s}.hw_topics p, clock
WHERE p.name = ANY ($1::text[])
