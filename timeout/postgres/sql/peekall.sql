-- When the first tasks of topics are due, in any slot. What was moved is due later than the index has it.
WITH {clock}
SELECT p.name, CASE WHEN first.due IS NOT NULL THEN greatest({until}, first.due) END - clock.now
FROM {s}.hw_topics p, clock, LATERAL (SELECT least(
        (SELECT t.filed FROM {s}.hw_tasks t WHERE t.topic = p.no AND t.state = 1 ORDER BY t.filed, t.id LIMIT 1),
        (SELECT t.filed FROM {s}.hw_tasks t WHERE t.topic = p.no AND t.state = 2 ORDER BY t.filed, t.id LIMIT 1)
    ) AS due) first
WHERE p.name = ANY ($1::text[])
