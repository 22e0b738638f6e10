-- A fence of the future was seen before the clock was stepped back. A call that began before its topic was
-- dropped may have set tasks after that: the number is kept for an hour.
WITH fences AS (DELETE FROM {s}.hw_fences WHERE at < {now} - 3600000),
seen AS (UPDATE {s}.hw_fences SET at = {now} WHERE at > {now})
DELETE FROM {s}.hw_dropped d
WHERE d.at < {now} - 3600000 AND NOT EXISTS (SELECT FROM {s}.hw_tasks t WHERE t.topic = d.no)
    AND NOT EXISTS (SELECT FROM {s}.hw_executions x WHERE x.topic = d.no)
