-- A call that began before its topic was dropped may have set tasks after that: the number is kept for an hour.
DELETE FROM {s}.hw_dropped d
WHERE d.at < {now} - 3600000 AND NOT EXISTS (SELECT FROM {s}.hw_tasks t WHERE t.topic = d.no)
    AND NOT EXISTS (SELECT FROM {s}.hw_executions x WHERE x.topic = d.no)
